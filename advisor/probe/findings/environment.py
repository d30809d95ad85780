"""Environment variables that hide devices, slow a run down or surprise."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.probe.findings._context import Context
from advisor.probe.records import Finding

#: Variables that choose devices, with the targets they concern.
VISIBLE: dict[str, tuple[str, ...]] = {
    "CUDA_VISIBLE_DEVICES": ("cuda", "rocm"),
    "HIP_VISIBLE_DEVICES": ("rocm",),
    "ROCR_VISIBLE_DEVICES": ("rocm",),
    "GPU_DEVICE_ORDINAL": ("rocm",),
    "ZE_AFFINITY_MASK": ("xpu",),
    "ASCEND_RT_VISIBLE_DEVICES": ("npu",),
    "TPU_VISIBLE_CHIPS": ("tpu",),
    "NEURON_RT_VISIBLE_CORES": ("neuron",),
    "HABANA_VISIBLE_DEVICES": ("gaudi",),
}

#: Variables that switch something off or make every launch wait: name, values that do so, severity, what follows.
_SWITCHES: tuple[tuple[str, frozenset[str], str, str], ...] = (
    ("NCCL_P2P_DISABLE", frozenset({"1"}), "warning", "GPUs of this machine exchange data through host memory instead of NVLink or PCIe"),
    ("NCCL_IB_DISABLE", frozenset({"1"}), "warning", "NCCL uses TCP between machines even where there is InfiniBand or RoCE"),
    ("NCCL_SHM_DISABLE", frozenset({"1"}), "warning", "NCCL uses sockets inside this machine where peers cannot reach each other"),
    ("CUDA_LAUNCH_BLOCKING", frozenset({"1"}), "warning", "every CUDA kernel is waited for: launches no longer overlap"),
    ("HIP_LAUNCH_BLOCKING", frozenset({"1"}), "warning", "every HIP kernel is waited for: launches no longer overlap"),
    ("AMD_SERIALIZE_KERNEL", frozenset({"1", "2", "3"}), "warning", "kernels run one after another"),
    ("PYTORCH_NO_CUDA_MEMORY_CACHING", frozenset({"1"}), "warning", "PyTorch asks the driver for every tensor's memory"),
    ("TORCH_COMPILE_DISABLE", frozenset({"1"}), "warning", "torch.compile does nothing"),
    ("TORCHDYNAMO_DISABLE", frozenset({"1"}), "warning", "torch.compile does nothing"),
    ("PYTORCH_JIT", frozenset({"0"}), "info", "TorchScript runs as plain Python"),
    ("TF_ENABLE_ONEDNN_OPTS", frozenset({"0"}), "info", "TensorFlow leaves oneDNN's kernels aside"),
    ("TF_DETERMINISTIC_OPS", frozenset({"1"}), "info", "TensorFlow uses slower deterministic kernels"),
    ("JAX_DISABLE_JIT", frozenset({"1", "true"}), "warning", "JAX runs every operation by itself"),
    ("JAX_DEBUG_NANS", frozenset({"1", "true"}), "warning", "JAX checks every result and leaves its compiled path on a NaN"),
    ("NVIDIA_TF32_OVERRIDE", frozenset({"0"}), "warning", "TF32 is off in every library: fp32 products run at a fraction of their speed"),
)  # fmt: skip


def visible_items(text: str) -> list[str]:
    """Return what a ``CUDA_VISIBLE_DEVICES`` list selects: CUDA's rule is that parsing stops at the first item that is none.

    An item is an index, ``GPU-`` with a UUID or its beginning, ``MIG-`` with a UUID, or the older ``MIG-GPU-UUID/GI/CI``. A device
    named twice makes the list select nothing.
    """
    items: list[str] = []
    for item in (part.strip() for part in text.split(",")):
        if not re.fullmatch(r"\d+|GPU-[0-9a-fA-F-]+|MIG-[0-9a-fA-F-]+|MIG-GPU-[0-9a-fA-F-]+/\d+/\d+", item):
            break
        items.append(item)
    return items if len(set(items)) == len(items) else []


def visible_devices(context: Context) -> Iterator[Finding]:
    """A variable hides devices, wholly or by a slip."""
    for name, targets in VISIBLE.items():
        text = context.environ.get(name)
        if text is None or not context.has_target(*targets):
            continue
        parts = [part for part in text.split(",") if part.strip()]
        selected = visible_items(text) if name == "CUDA_VISIBLE_DEVICES" else [part for part in parts if part.strip() != "-1"]
        count = sum(device.target in targets for device in context.devices)
        if not selected:
            yield Finding(
                code="VISIBLE_DEVICES_EMPTY",
                severity="error",
                message=f"{name} selects no device: every program here sees none of the {count} present.",
                evidence=f"{name}={text!r}",
                fix=f"unset {name}",
            )
        elif name == "CUDA_VISIBLE_DEVICES" and len(selected) < len(parts):
            yield Finding(
                code="VISIBLE_DEVICES_ODD",
                severity="warning",
                message=f"{name} is read up to its first wrong item: it selects {', '.join(selected)} only.",
                evidence=f"{name}={text!r}",
                fix=f"export {name}={','.join(selected)}",
            )
        elif all(item.strip().isdecimal() for item in selected) and max(int(item) for item in selected) >= count and targets[0] == "cuda":
            yield Finding(
                code="VISIBLE_DEVICES_ODD",
                severity="warning",
                message=f"{name} names an index that is not there: devices are 0 to {count - 1}.",
                evidence=f"{name}={text!r}",
                fix=f"export {name}={','.join(map(str, range(count)))}",
            )
        elif len(selected) < count:
            yield Finding(
                code="VISIBLE_DEVICES_SUBSET",
                severity="info",
                message=f"{name} selects {len(selected)} of {count} devices.",
                evidence=f"{name}={text!r}",
                fix=f"unset {name}, if all are meant",
            )


def visible_conflict(context: Context) -> Iterator[Finding]:
    """ROCm applies ROCR_VISIBLE_DEVICES first and numbers anew; HIP or CUDA's list then counts in what is left."""
    stated = [name for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if context.environ.get(name)]
    if context.has_target("rocm") and len(stated) > 1:
        yield Finding(
            code="VISIBLE_DEVICES_CONFLICT",
            severity="warning",
            message=f"{' and '.join(stated)} are all applied, one after the other, each counting in what the one before left over.",
            evidence=", ".join(f"{name}={context.environ[name]}" for name in stated),
            fix="keep one of them (HIP_VISIBLE_DEVICES)",
        )


def switches(context: Context) -> Iterator[Finding]:
    """Variables meant for debugging that were left set."""
    for name, values, severity, effect in _SWITCHES:
        value = context.environ.get(name)
        if value is not None and value.strip().lower() in values:
            yield Finding(
                code=name,
                severity="warning" if severity == "warning" else "info",
                message=f"{name} is set: {effect}.",
                evidence=f"{name}={value}",
                fix=f"unset {name}",
            )


def jax(context: Context) -> Iterator[Finding]:
    """How JAX takes memory and which platforms it may use."""
    environ = context.environ
    platforms = environ.get("JAX_PLATFORMS") or environ.get("JAX_PLATFORM_NAME")
    accelerators = [device.target for device in context.devices if not device.target.startswith("cpu")]
    if platforms and accelerators and set(platforms.lower().split(",")) <= {"cpu"}:
        yield Finding(
            code="JAX_PLATFORMS_PINNED",
            severity="warning",
            message=f"JAX is pinned to {platforms} although this machine has {', '.join(sorted(set(accelerators)))} devices.",
            evidence=f"JAX_PLATFORMS={platforms}",
            fix="unset JAX_PLATFORMS JAX_PLATFORM_NAME",
        )
    if environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "").lower() in ("false", "0"):
        yield Finding(
            code="JAX_PREALLOCATION_OFF",
            severity="info",
            message="JAX takes GPU memory piece by piece: slower and more fragmented, but other processes get some.",
            evidence=f"XLA_PYTHON_CLIENT_PREALLOCATE={environ['XLA_PYTHON_CLIENT_PREALLOCATE']}",
            fix="unset XLA_PYTHON_CLIENT_PREALLOCATE for a run that has the GPU to itself",
        )
    elif (
        "jax" in context.packages
        and "torch" in context.packages
        and context.has_target("cuda", "rocm")
        and not environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION")
    ):
        yield Finding(
            code="JAX_PREALLOCATION",
            severity="info",
            message="JAX takes 75 % of a GPU's memory at its start; torch in the same or another process gets the rest.",
            evidence="jax and torch are installed; XLA_PYTHON_CLIENT_PREALLOCATE is not set",
            fix="export XLA_PYTHON_CLIENT_PREALLOCATE=false where both use one GPU",
        )


def preload(context: Context) -> Iterator[Finding]:
    """LD_PRELOAD with a library that is missing, or two that do the same."""
    words = [word for word in re.split(r"[:\s]+", context.environ.get("LD_PRELOAD", "")) if word]
    missing = [word for word in words if "/" in word and "$" not in word and not _exists(context, word)]
    if missing:
        yield Finding(
            code="LD_PRELOAD_MISSING",
            severity="warning",
            message=f"LD_PRELOAD names a library that is not there: {missing[0]}.",
            evidence=f"LD_PRELOAD={context.environ['LD_PRELOAD']}",
            fix="unset LD_PRELOAD, or correct the path",
        )
    names = [word.rpartition("/")[2] for word in words]
    for kind, pattern in (("allocators", r"jemalloc|tcmalloc|mimalloc|tbbmalloc"), ("OpenMP runtimes", r"libgomp|libiomp5|libomp\b")):
        several = sorted({match[0] for name in names if (match := re.search(pattern, name))})
        if len(several) > 1:
            yield Finding(
                code="LD_PRELOAD_TWICE",
                severity="warning",
                message=f"LD_PRELOAD loads two {kind}: {' and '.join(several)}.",
                evidence=f"LD_PRELOAD={context.environ['LD_PRELOAD']}",
                fix="keep one",
            )


def _exists(context: Context, path: str) -> bool:
    try:
        return context.root.exists(path)
    except ValueError:  # a path with '..'
        return True


FINDERS = (visible_devices, visible_conflict, switches, jax, preload)
