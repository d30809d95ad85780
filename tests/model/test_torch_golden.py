"""Parameters and forward FLOPs against torch itself: reference modules written here, on the meta device, counted by FlopCounterMode."""

from __future__ import annotations

import pytest

from advisor.model import counts
from advisor.model.registry import model

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


class Mlp(nn.Module):
    """Two or three dense layers."""

    def __init__(self, hidden: int, ffn: int, gated: bool, bias: bool) -> None:
        super().__init__()
        self.up = nn.Linear(hidden, ffn, bias=bias)
        self.gate = nn.Linear(hidden, ffn, bias=bias) if gated else None
        self.down = nn.Linear(ffn, hidden, bias=bias)

    def forward(self, x):
        y = self.up(x)
        return self.down(F.gelu(y) if self.gate is None else F.silu(self.gate(x)) * y)


class Layer(nn.Module):
    """Attention with shared key-value heads and an MLP, each behind a norm."""

    def __init__(self, t, sdpa: bool) -> None:
        super().__init__()
        self.t, self.sdpa = t, sdpa
        bias = t.norm == "layernorm"
        norm = nn.LayerNorm if bias else nn.RMSNorm
        self.first, self.second = norm(t.hidden), norm(t.hidden)
        self.q = nn.Linear(t.hidden, t.heads * t.head_dim, bias=bias)
        self.k = nn.Linear(t.hidden, t.kv_heads * t.head_dim, bias=bias)
        self.v = nn.Linear(t.hidden, t.kv_heads * t.head_dim, bias=bias)
        self.out = nn.Linear(t.heads * t.head_dim, t.hidden, bias=bias)
        self.mlp = Mlp(t.hidden, t.ffn_hidden, t.gated_mlp, bias)

    def attend(self, x):
        t, (batch, length, _) = self.t, x.shape
        q = self.q(x).view(batch, length, t.heads, t.head_dim).transpose(1, 2)
        k, v = (part(x).view(batch, length, t.kv_heads, t.head_dim).transpose(1, 2) for part in (self.k, self.v))
        k, v = (part.repeat_interleave(t.heads // t.kv_heads, dim=1) for part in (k, v))
        if self.sdpa:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=t.causal)
        else:
            y = torch.softmax(q @ k.transpose(-1, -2) / t.head_dim**0.5, dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))

    def forward(self, x):
        x = x + self.attend(self.first(x))
        return x + self.mlp(self.second(x))


class Reference(nn.Module):
    """A decoder of the GPT-2 or the Llama shape."""

    def __init__(self, t, sdpa: bool) -> None:
        super().__init__()
        self.tokens = nn.Embedding(t.vocab, t.hidden)
        self.positions = nn.Embedding(t.max_seq, t.hidden) if t.learned_positions else None
        self.layers = nn.ModuleList(Layer(t, sdpa) for _ in range(t.layers))
        self.norm = (nn.LayerNorm if t.norm == "layernorm" else nn.RMSNorm)(t.hidden)
        self.head = nn.Linear(t.hidden, t.vocab, bias=False)
        if t.tied_embeddings:
            self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def _count(module, inputs) -> tuple[int, int]:
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        module.eval()(inputs)
    return sum(parameter.numel() for parameter in module.parameters()), counter.get_total_flops()


@pytest.mark.parametrize(
    ("name", "sdpa"), [("gpt-125m", False), ("gpt-13b", True), ("llama-2-7b", False), ("llama-3.2-1b", True), ("mistral-7b-v0.3", True)]
)
def test_decoders_equal_torch(name: str, sdpa: bool) -> None:
    found = model(name)
    t = found.transformer
    assert t is not None
    length = min(found.default_seq, 2048)
    with torch.device("meta"):
        module = Reference(t, sdpa)
        measured = _count(module, torch.zeros(1, length, dtype=torch.long))
    assert (found.parameters, counts.forward_flops(found, length)) == measured


def test_gpt_13b_takes_56_teraflop() -> None:
    assert counts.forward_flops(model("gpt-13b")) == pytest.approx(56.0295e12, rel=1e-6)


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 (with the stride), 1 x 1."""

    def __init__(self, before: int, planes: int, stride: int) -> None:
        super().__init__()
        after = 4 * planes
        self.body = nn.Sequential(
            nn.Conv2d(before, planes, 1, bias=False),
            nn.BatchNorm2d(planes),
            nn.ReLU(),
            nn.Conv2d(planes, planes, 3, stride, 1, bias=False),
            nn.BatchNorm2d(planes),
            nn.ReLU(),
            nn.Conv2d(planes, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.short = nn.Sequential()
        if stride != 1 or before != after:
            self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


@pytest.mark.parametrize(("name", "depths"), [("resnet-50", (3, 4, 6, 3)), ("resnet-152", (3, 8, 36, 3))])
def test_resnets_equal_torch(name: str, depths: tuple[int, ...]) -> None:
    found = model(name)
    with torch.device("meta"):
        parts = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        before = 64
        for stage, depth in enumerate(depths):
            for block in range(depth):
                parts.append(Bottleneck(before, 64 << stage, 2 if stage and not block else 1))
                before = 256 << stage
        module = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
        measured = _count(module, torch.zeros(1, 3, 224, 224))
    assert (found.parameters, counts.forward_flops(found)) == measured
