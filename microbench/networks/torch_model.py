"""A described network as torch modules: eager, traced and frozen, or compiled; dynamic int8; one training step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody writes it

from microbench.networks.weights import NORM_EPSILON, bottlenecks, rotary
from microbench.plugin import Kernel, Unsupported
from microbench.protocol import Case

TYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LEARNING_RATE = 1e-4


def _parameter(array: Any) -> nn.Parameter:
    return nn.Parameter(torch.from_numpy(array).clone())


def _linear(weights: Mapping[str, Any], name: str) -> nn.Linear:
    w = weights[f"{name}.w"]
    layer = nn.Linear(w.shape[0], w.shape[1], bias=f"{name}.b" in weights)
    layer.weight = nn.Parameter(torch.from_numpy(w.T.copy()))
    if layer.bias is not None:
        layer.bias = _parameter(weights[f"{name}.b"])
    return layer


def _norm(weights: Mapping[str, Any], name: str) -> nn.Module:
    scale = weights[f"{name}.scale"]
    if f"{name}.bias" not in weights:
        rms = nn.RMSNorm(len(scale), eps=NORM_EPSILON)
        rms.weight = _parameter(scale)
        return rms
    norm = nn.LayerNorm(len(scale), eps=NORM_EPSILON)
    norm.weight, norm.bias = _parameter(scale), _parameter(weights[f"{name}.bias"])
    return norm


class Layer(nn.Module):
    """One transformer layer; ``before``: normalisation before the residual branch."""

    def __init__(self, net: Mapping[str, Any], weights: Mapping[str, Any], name: str) -> None:
        super().__init__()
        self.heads, self.kv, self.size = net["heads"], net["kv_heads"], net["head_dim"]
        self.causal, self.before, self.gated = bool(net["causal"]), net["kind"] == "decoder", bool(net["gated_mlp"])
        for part in ("q", "k", "v", "o", "up", "down", *(("gate",) if self.gated else ())):
            setattr(self, part, _linear(weights, f"{name}.{part}"))
        self.norm1, self.norm2 = _norm(weights, f"{name}.norm1"), _norm(weights, f"{name}.norm2")

    def attend(self, x: torch.Tensor, cos: torch.Tensor | None, sin: torch.Tensor | None) -> torch.Tensor:
        batch, seq = x.shape[0], x.shape[1]
        q = self.q(x).view(batch, seq, self.heads, self.size).transpose(1, 2)
        k = self.k(x).view(batch, seq, self.kv, self.size).transpose(1, 2)
        v = self.v(x).view(batch, seq, self.kv, self.size).transpose(1, 2)
        if cos is not None and sin is not None:
            q, k = (t * cos + torch.cat((-t[..., self.size // 2 :], t[..., : self.size // 2]), -1) * sin for t in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=self.kv != self.heads)
        return self.o(y.transpose(1, 2).reshape(batch, seq, self.heads * self.size))

    def mlp(self, x: torch.Tensor) -> torch.Tensor:
        if self.gated:
            return self.down(F.silu(self.gate(x)) * self.up(x))
        return self.down(F.gelu(self.up(x), approximate="tanh"))

    def forward(self, x: torch.Tensor, cos: torch.Tensor | None, sin: torch.Tensor | None) -> torch.Tensor:
        if self.before:
            x = x + self.attend(self.norm1(x), cos, sin)
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attend(x, cos, sin))
        return self.norm2(x + self.mlp(x))


class Transformer(nn.Module):
    """Encoder or decoder with an optional language-model head tied to the embedding."""

    def __init__(self, net: Mapping[str, Any], weights: Mapping[str, Any], lm: bool) -> None:
        super().__init__()
        self.lm, self.before = lm, net["kind"] == "decoder"
        self.tokens = nn.Embedding.from_pretrained(torch.from_numpy(weights["tokens"]).clone(), freeze=False)
        self.positions = _parameter(weights["positions"]) if "positions" in weights else None
        if self.positions is None:
            cos, sin = rotary(net, net["max_seq"])
            self.register_buffer("cos", torch.from_numpy(cos), persistent=False)
            self.register_buffer("sin", torch.from_numpy(sin), persistent=False)
        self.layers = nn.ModuleList(Layer(net, weights, f"layers.{i}") for i in range(net["layers"]))
        self.norm = _norm(weights, "norm")

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        seq = tokens.shape[1]
        x = self.tokens(tokens)
        cos = sin = None
        if self.positions is not None:
            x = x + self.positions[:seq]
        else:
            cos, sin = self.cos[:seq], self.sin[:seq]
        if not self.before:
            x = self.norm(x)
        for layer in self.layers:
            x = layer(x, cos, sin)
        if self.before:
            x = self.norm(x)
        return F.linear(x, self.tokens.weight) if self.lm else x


class Unit(nn.Module):
    """Convolution and batch norm."""

    def __init__(self, weights: Mapping[str, Any], name: str, stride: int, padding: int) -> None:
        super().__init__()
        w = weights[f"{name}.w"]
        self.conv = nn.Conv2d(w.shape[1], w.shape[0], w.shape[2], stride, padding, bias=False)
        self.conv.weight = _parameter(w)
        self.norm = nn.BatchNorm2d(w.shape[0], eps=NORM_EPSILON)
        self.norm.weight, self.norm.bias = _parameter(weights[f"{name}.scale"]), _parameter(weights[f"{name}.bias"])
        self.norm.running_mean = torch.from_numpy(weights[f"{name}.mean"]).clone()
        self.norm.running_var = torch.from_numpy(weights[f"{name}.var"]).clone()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x))


class Bottleneck(nn.Module):
    """Three convolutions around a residual."""

    def __init__(self, weights: Mapping[str, Any], name: str, stride: int, first: bool) -> None:
        super().__init__()
        self.one, self.two, self.three = (
            Unit(weights, f"{name}.1", 1, 0),
            Unit(weights, f"{name}.2", stride, 1),
            Unit(weights, f"{name}.3", 1, 0),
        )
        self.skip = Unit(weights, f"{name}.skip", stride, 0) if first else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.three(F.relu(self.two(F.relu(self.one(x))))) + self.skip(x))


class ResNet(nn.Module):
    """Bottleneck ResNet with its classifier."""

    def __init__(self, net: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
        super().__init__()
        self.stem = Unit(weights, "stem", 2, 3)
        self.blocks = nn.Sequential(*(Bottleneck(weights, f"stages.{s}.{i}", stride, i == 0) for s, i, _, stride in bottlenecks(net)))
        self.classifier = _linear(weights, "classifier")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        return self.classifier(self.blocks(x).mean((2, 3)))


def network(inputs: Mapping[str, Any], *, train: bool = False) -> nn.Module:
    """Return the described network with its weights, in float32 on the CPU."""
    net, weights = inputs["network"], inputs["weights"]
    return ResNet(net, weights) if net["kind"] == "resnet" else Transformer(net, weights, train or net["head"] == "lm")


def build(session: Any, case: Case, inputs: Mapping[str, Any]) -> Kernel:
    """Make the network ready in the execution, precision and quantization that ``case`` asks for."""
    if case.dtype not in TYPES:
        raise Unsupported(f"torch has no {case.dtype} networks here")
    start = time.perf_counter()
    net = inputs["network"]
    train = case.params.get("mode") == "train"
    model = network(inputs, train=train)
    x = torch.from_numpy(inputs["images" if net["kind"] == "resnet" else "tokens"]).to(session.device)
    if train:
        return _train(session, case, model.to(session.device), x, torch.from_numpy(inputs["targets"]).to(session.device), start)
    model = model.eval().to(session.device)
    autocast = case.params.get("execution") == "autocast"
    if autocast and (case.dtype not in ("bf16", "fp16") or case.params.get("quantization", "none") != "none"):
        raise Unsupported("autocast takes fp32 networks to bf16 or fp16")
    if x.is_floating_point() and not autocast:
        x = x.to(TYPES[case.dtype])
    model = model if autocast else _executed(case, _quantized(case, model), x)
    box: list[Any] = [None]
    # Under autocast weights stay in fp32 and are cast in every call; caching the casts is for training.
    device = session.device.split(":")[0]
    narrow = torch.autocast(device, TYPES[case.dtype], cache_enabled=False) if autocast else contextlib.nullcontext()

    def run() -> None:
        with torch.inference_mode(), narrow:
            box[0] = model(x)

    return session.kernel(run, lambda: box[0], prepare_s=time.perf_counter() - start)


def _quantized(case: Case, model: nn.Module) -> nn.Module:
    quantization = case.params.get("quantization", "none")
    if quantization == "none":
        return model.to(TYPES[case.dtype])
    if quantization != "int8-dynamic":
        raise Unsupported(f"the torch backend has no quantization {quantization!r}")
    if case.dtype != "fp32" or not hasattr(torch, "ao"):
        raise Unsupported("torch's dynamic int8 keeps the rest in fp32")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)


def _executed(case: Case, model: nn.Module, x: torch.Tensor) -> Any:
    execution = case.params.get("execution", "eager")
    if execution == "eager":
        return model
    if execution == "compile":
        if case.params.get("quantization", "none") != "none":
            raise Unsupported("quantized dynamic modules are not compiled")
        return torch.compile(model)
    if execution == "script":
        import warnings

        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return torch.jit.freeze(torch.jit.trace(model, x, check_trace=False))
    raise Unsupported(f"torch has no execution {execution!r}")


def _train(session: Any, case: Case, model: nn.Module, x: torch.Tensor, targets: torch.Tensor, start: float) -> Kernel:
    """One step: forward under autocast, backward, AdamW; ``result`` runs one more to see the loss fall."""
    if case.params.get("quantization", "none") != "none" or case.params.get("execution") == "script":
        raise Unsupported("torch trains neither quantized nor traced networks here")
    if case.dtype not in ("fp32", "bf16", "fp16"):
        raise Unsupported(f"no training step in {case.dtype}")
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
    device = session.device.split(":")[0]
    compiled = torch.compile(model) if case.params.get("execution") == "compile" else model
    scaler = torch.amp.GradScaler(device) if case.dtype == "fp16" else None
    box: list[Any] = [None]

    def run() -> None:
        with torch.enable_grad():
            narrow = torch.autocast(device, dtype=TYPES[case.dtype]) if case.dtype != "fp32" else contextlib.nullcontext()
            with narrow:
                logits = compiled(x)
            loss = F.cross_entropy(logits.float().flatten(0, -2), targets.flatten(), reduction="none")
            samples = loss.view(x.shape[0], -1).mean(1)
            optimizer.zero_grad(set_to_none=True)
            if scaler is None:
                samples.mean().backward()
                optimizer.step()
            else:
                scaler.scale(samples.mean()).backward()
                scaler.step(optimizer)
                scaler.update()
        box[0] = samples.detach()

    kernel = session.kernel(run, lambda: box[0], prepare_s=time.perf_counter() - start)

    def result() -> tuple[Any, Any]:
        first = kernel.result()
        kernel.run()
        return first, kernel.result()

    return Kernel(kernel.run, result, None, kernel.notes)
