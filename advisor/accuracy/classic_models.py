"""Models of the published vision and BERT-class tables: printed names to shapes, and Transformer-XL, which no registry entry covers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from advisor.errors import AdvisorError
from advisor.model.records import Attention, Block, Elementwise, Gemm, Model, Transformer
from advisor.model.registry import model

#: Words of a printed name, most particular first, to a registry name.
_NAMES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("se-resnext101",), "se-resnext-101-32x4d"),
    (("resnext101",), "resnext-101-32x4d"),
    (("resnet50",), "resnet-50"),
    (("rn50",), "resnet-50"),
    (("bert-base",), "bert-base"),
    (("bert base",), "bert-base"),
    (("bert-large",), "bert-large"),
    (("bert large",), "bert-large"),
    (("electra",), "electra-base"),
)
#: Layers, hidden, heads, head size, feed-forward width of the two published sizes, and the word pieces of the head's first cluster.
_XL: Mapping[str, tuple[int, int, int, int, int]] = {"base": (16, 512, 8, 64, 2048), "large": (18, 1024, 16, 64, 4096)}
#: (tokens, memory) in training and in evaluation (NVIDIA DeepLearningExamples, Transformer-XL, default configurations).
_XL_LENGTHS: Mapping[tuple[str, bool], tuple[int, int]] = {
    ("base", True): (192, 192),
    ("base", False): (64, 640),
    ("large", True): (384, 384),
    ("large", False): (128, 1600),
}
#: WikiText-103 vocabulary and the first cut of its adaptive softmax; about a quarter of tokens fall beyond it.
_XL_VOCAB, _XL_CUT = 267735, 19997


def model_of(printed: str, task: str) -> Model | None:
    """Return the model a printed name and its table's heading mean; None where no shapes are known."""
    text = f"{printed} {task}".lower()
    name = printed.lower()
    if "efficientnet" in name:
        size = next((s for s in ("b0", "b4") if f"-{s}" in text), None)
        return None if size is None or "v2" in name else _registry(f"efficientnet-{size}")
    if "transformer-xl" in name or "transformerxl" in name:
        return None
    for words, known in _NAMES:
        if all(word in name for word in words):
            return _registry(known)
    return None


@lru_cache(maxsize=32)
def _registry(name: str) -> Model | None:
    try:
        return model(name)
    except AdvisorError:
        return None


@lru_cache(maxsize=8)
def transformer_xl(size: str, training: bool) -> Model:
    """Return Transformer-XL ``base`` or ``large`` over one segment: keys are the segment and its memory (Dai et al., 2019).

    Keys and values of the memory are projected anew for every segment, positions have a projection of their own, and scores are two
    products (content and position), the second shifted in memory.
    """
    layers, hidden, heads, head, ffn = _XL[size]
    tokens, memory = _XL_LENGTHS[size, training]
    keys = tokens + memory
    inner = heads * head
    scores = heads * keys
    operators = (
        Gemm(name="attention.qkv", n=3 * inner, k=hidden, tokens_per_sample=keys),
        # Once for all sequences of a batch; counted for each, it is less than a tenth of the work of one.
        Gemm(name="attention.positions", n=inner, k=hidden, tokens_per_sample=max(keys // 16, 1)),
        Attention(heads=heads, kv_heads=heads, head_dim=head, value_dim=head, causal=False, keys_per_sample=keys),
        # The position scores: a product, and a shifted copy.
        Gemm(name="attention.position_scores", n=keys, k=head, tokens_per_sample=tokens * heads, has_weight=False),
        Elementwise(name="shift", reads_per_token=2.0 * scores, writes_per_token=2.0 * scores),
        Gemm(name="attention.out", n=hidden, k=inner, split="row"),
        Elementwise(name="norm", reads_per_token=2.0 * hidden, writes_per_token=hidden, count=2),
        Gemm(name="mlp.up", n=ffn, k=hidden, bias=True),
        Elementwise(name="mlp.activation", reads_per_token=ffn, writes_per_token=ffn),
        Gemm(name="mlp.down", n=hidden, k=ffn, bias=True, split="row"),
        Elementwise(name="residual", reads_per_token=2.0 * hidden, writes_per_token=hidden, count=2),
    )
    weights = 5 * hidden * inner + 2 * hidden * ffn
    embedding = _XL_VOCAB * hidden
    head_block = Block(
        section="head", name="adaptive softmax", repeat=1, operators=(Gemm(name="logits", n=_XL_CUT, k=hidden),), parameters=0
    )
    return Model(
        name=f"transformer-xl-{size}",
        family="transformer-xl",
        kind="encoder",
        parameters=layers * weights + embedding,
        blocks=(Block(section="layer", name="layer", repeat=layers, operators=operators, parameters=weights), head_block),
        sample="sequence",
        default_seq=tokens,
        transformer=Transformer(
            layers=layers, hidden=hidden, heads=heads, kv_heads=heads, head_dim=head, ffn_hidden=ffn, vocab=_XL_VOCAB, max_seq=keys
        ),
    )
