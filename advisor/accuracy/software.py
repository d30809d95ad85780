"""Software columns of published tables, to the names a Plan uses: framework, execution, precision, sharding, recomputation, memory kind.

A blank is filled only where the framework's own recipes leave no choice; each such default is listed here with its source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from advisor.cost.traits import family_of

#: Text in the framework column, in lower case, to the name under which the cost model keeps its traits; the first match wins.
_FRAMEWORKS: tuple[tuple[str, str], ...] = (
    ("llm-foundry", "llm-foundry"),
    ("composer", "llm-foundry"),
    ("torchtitan", "torchtitan"),
    ("torchtune", "torchtune"),
    ("nanotron", "nanotron"),
    ("internevo", "internevo"),
    ("libai", "libai"),
    ("flash-attn", "flash-attn"),
    ("maxtext", "jax"),
    ("jax", "jax"),
    ("megatron-bridge", "megatron-tuned"),
    ("nemo", "megatron-tuned"),
    # Intel's forks of 2024 have fused attention and overlap; their name comes before that of what they forked.
    ("gaudi", "megatron"),
    ("megatron-deepspeed", "megatron-deepspeed"),
    ("deepspeed 3d", "megatron-deepspeed"),
    ("hf trainer", "deepspeed"),
    ("zero-3", "deepspeed"),
    ("megatron-lm 2021", "megatron-2021"),
    ("+ te ", "megatron-plain"),
    ("primus", "megatron"),
    ("modellink", "megatron"),
    ("neuron", "megatron"),
    ("megatron", "megatron-2021"),
    ("deepspeed", "deepspeed"),
    ("pytorch", "torch"),
)
#: Frameworks whose tensor parallelism always comes with sequence parallelism (NeMo and torchtitan recipes, nanotron REDUCE_SCATTER mode,
#: XLA shards activations over the tensor axis).
SEQUENCE_PARALLEL = frozenset({"jax", "megatron-tuned", "torchtitan", "nanotron", "megatron-plain"})
#: Sequence length of the recipes a table refers to without printing it: torchtitan ``train_configs/llama3_*.toml`` (8192);
#: nanotron's benchmark of "The Ultra-Scale Playbook" (256 sequences of 4096 tokens, about 1M tokens a batch).
RECIPE_SEQ: Mapping[str, int] = {"torchtitan": 8192, "nanotron": 4096}
#: Recomputation of the recipes a table refers to without printing it: torchtitan ``train_configs/llama3_*.toml``; torchtune
#: ``recipes/configs/llama3_1/8B_full_single_device.yaml`` and ``8B_lora_single_device.yaml`` (``enable_activation_checkpointing: True``).
RECIPE_RECOMPUTE: Mapping[str, str] = {"torchtitan": "selective", "torchtune": "full"}
#: Chunks of a stage where a run is interleaved and the table does not say how far (torchtitan distributed/pipeline_parallel.py: two stages
#: a rank unless the schedule holds one).
INTERLEAVED_CHUNKS = 2
#: Frameworks whose published runs with a blank precision use 8 bits where the device has them (vendors' tuned configurations).
TUNED = frozenset({"megatron-tuned"})
_NO_FLASH = frozenset({"unnamed-3d", "megatron-2021", "megatron-deepspeed", "libai", "deepspeed"})


def framework_of(text: str) -> str:
    """Return the framework's name; a blank one is 3D-parallel code of unstated origin."""
    lower = text.lower()
    return next((name for part, name in _FRAMEWORKS if part in lower), "unnamed-3d" if not lower else "torch")


def devices_and_framework(row: Mapping[str, str]) -> tuple[int, str]:
    """Return the number of devices (0 where it is not stated) and the name of the framework as it was run."""
    text = row.get("n_devices", "").strip()
    devices = int(float(text)) if re.fullmatch(r"\d+(\.0*)?", text) else 0
    return devices, framework_of(row.get("framework", ""))


def precision_of(text: str, framework: str, peaks: Mapping[str, float]) -> str:
    """Return the dtype of the matrix products."""
    lower = text.lower()
    if "nvfp4" in lower:
        return "fp4"
    if "fp8" in lower or "float8" in lower:
        # Rows scaled apart run on open kernels with scales, not on the vendor's library (torchao float8 README).
        return "fp8_rows" if "rowwise" in lower else "fp8"
    if "bf16" in lower and "fp16 or bf16" not in lower:
        return "bf16"
    if "fp16" in lower or "16-bit" in lower:
        return "fp16"
    for name in ("tf32", "fp32"):
        if name in lower:
            return name
    if framework in TUNED and "fp8" in peaks:
        return "fp8"
    return "fp16" if framework in _NO_FLASH or "bf16" not in peaks else "bf16"


def execution_of(framework: str, precision: str, options: frozenset[str]) -> str:
    """Return eager, compile or jit. float8 linear layers of torchtitan need torch.compile (torchao float8 README)."""
    if framework == "jax":
        return "jit"
    compiled = "compile" in options or (framework == "torchtitan" and precision.startswith("fp8")) or framework == "torchtune"
    return "compile" if compiled and framework in ("torchtitan", "torchtune", "torch", "llm-foundry") else "eager"


@dataclass(frozen=True, slots=True)
class Sharding:
    """Kind and degree (None: all data-parallel ranks)."""

    kind: str
    degree: int | None = None


def sharding_of(text: str, framework: str) -> Sharding:
    """Return how states are sharded."""
    lower = text.lower()
    inside = re.search(r"fsdp=(\d+) in slice x dp=(\d+)", lower)
    if inside:
        return Sharding("hsdp" if int(inside[2]) > 1 else "fsdp", int(inside[1]))
    group = re.search(r"(?:shard group|fsdp group)\s*(\d+)", lower)
    if "zero-3" in lower:
        return Sharding("zero3")
    if "zero-2" in lower:
        return Sharding("zero2")
    if "zero-1" in lower or "bf16_optimizer" in lower or "distributed optimizer" in lower:
        return Sharding("zero1", int(group[1]) if group else None)
    if "zero-0" in lower or lower == "none":
        return Sharding("none")
    if "fsdp" in lower:
        return Sharding("fsdp", int(group[1]) if group else None)
    if framework in ("megatron-tuned", "megatron"):
        return Sharding("zero1")
    return Sharding("none")


def recompute_of(text: str, framework: str) -> str:
    """Return none, selective or full; a blank column means the framework's recipes (``RECIPE_RECOMPUTE``), else none."""
    lower = text.lower() or RECIPE_RECOMPUTE.get(framework, "")
    if "full" in lower:
        return "full"
    return "selective" if "selective" in lower or "minimal" in lower else "none"


def offload_of(text: str, framework: str) -> str:
    """Return what lives on the host: none, optimizer or params. PyTorch's FSDP offers both together only (``CPUOffloadPolicy``)."""
    lower = text.lower()
    if "full cpu" in lower or "param:y" in lower:
        return "params"
    if lower not in ("y", "yes") and "opt:y" not in lower:
        return "none"
    return "params" if family_of(framework) == "torch" else "optimizer"


def attention_of(text: str, framework: str) -> str:
    """Return ``math`` for unfused attention; frameworks from before 2023 have no other."""
    if text == "n":
        return "math"
    return "math" if text in ("", "unknown") and framework in _NO_FLASH else "flash"


def memory_kind(text: str) -> str:
    """Return which definition of memory a column follows: allocated, reserved, device or unstated."""
    lower = text.lower()
    if "max_memory_allocated" in lower or "peak_allocated" in lower:
        return "allocated"
    if "nvidia-smi" in lower:
        return "device"
    return "reserved" if "reserved)" in lower and "not" not in lower else "unstated"


def adapter_of(source: str, options: frozenset[str]) -> str | None:
    """Return none, lora or qlora; None where a table mixes them and nothing tells which."""
    lower = source.lower()
    for name in ("qlora", "lora"):
        if name in options or name in lower:
            return name
    mixed = "(finetuning)" in lower or "memory and training speed" in lower
    return None if mixed and "full-finetune" not in options else "none"
