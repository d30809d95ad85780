"""The networks that are measured whole and predicted from kernels: BERT-base, ResNet-50 and a small GPT, over batch, length and mode."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from advisor.model.importers.hf import from_mapping
from advisor.model.records import Model
from advisor.model.registry import model
from microbench.benchmarks.model import BERT_BASE, GPT_SMALL, RESNET_50

BACKENDS = ("torch", "jax", "onnxruntime")
#: (batch, tokens) of an encoder's and a decoder's inference, batches of images, (batch, tokens) of training steps.
_BERT = ((1, 32), (1, 128), (8, 32), (8, 128), (1, 512))
_GPT = ((1, 32), (1, 128), (8, 128), (2, 512))
_IMAGES = (1, 4, 16)
_STEPS = ((1, 128), (4, 128), (16, 128), (2, 512))
_BERT_STEPS = ((1, 128), (4, 128))
_IMAGE_STEPS = (2, 8)


def networks() -> tuple[dict[str, Any], ...]:
    """Return the cases of the ``model`` benchmark; each backend adds its executions."""
    rows: list[dict[str, Any]] = []
    rows += [_case(BERT_BASE, "infer", batch, seq=seq) for batch, seq in _BERT]
    rows += [_case(BERT_BASE, "infer", batch, seq=128, quantization="int8-dynamic") for batch in (1, 8)]
    rows += [_case(GPT_SMALL, "infer", batch, seq=seq) for batch, seq in _GPT]
    rows += [_case(RESNET_50, "infer", batch, resolution=224) for batch in _IMAGES]
    rows += [_case(GPT_SMALL, "train", batch, seq=seq) for batch, seq in _STEPS]
    rows += [_case(BERT_BASE, "train", batch, seq=seq) for batch, seq in _BERT_STEPS]
    rows += [_case(RESNET_50, "train", batch, resolution=224) for batch in _IMAGE_STEPS]
    return tuple(rows)


def _case(network: Mapping[str, Any], mode: str, batch: int, quantization: str = "none", **size: int) -> dict[str, Any]:
    return {"network": network, "batch": batch, **size, "mode": mode, "quantization": quantization}


@lru_cache(maxsize=4)
def small_gpt() -> Model:
    """Return the benchmark's own small GPT as the cost model describes it."""
    g = GPT_SMALL
    names = {
        "n_layer": "layers",
        "n_embd": "hidden",
        "n_head": "heads",
        "n_inner": "ffn_hidden",
        "vocab_size": "vocab",
        "n_positions": "max_seq",
    }
    config = {"model_type": "gpt2", **{key: g[value] for key, value in names.items()}}
    return from_mapping(config, what="the small GPT of the model benchmark", name="gpt-small")


def described(network: Mapping[str, Any]) -> Model:
    """Return the Model of a measured network."""
    kinds = {"encoder": "bert-base", "resnet": "resnet-50"}
    name = kinds.get(str(network["kind"]))
    return small_gpt() if name is None else model(name)
