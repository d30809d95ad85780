"""How GPUs are set up: modes, mixtures, numbering, overrides, and a driver too old for a framework."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.probe.accelerators.kfd import gfx_name
from advisor.probe.findings._context import Context
from advisor.probe.findings.accelerators import accelerators, names
from advisor.probe.records import Device, Finding
from advisor.units import format_bytes


def _usable(context: Context, target: str) -> list[Device]:
    return [device for device in accelerators(context) if device.target == target and device.state == "usable"]


def modes(context: Context) -> Iterator[Finding]:
    """Modes of the NVIDIA driver that surprise."""
    gpus = _usable(context, "cuda")
    lazy = [device for device in gpus if device.details.get("persistence_mode") is False and device.details.get("driver_model") is None]
    if lazy:
        yield Finding(
            code="PERSISTENCE_MODE_OFF",
            severity="info",
            message=f"{names(lazy)}: persistence mode is off, so the first call after idling waits for the driver to load.",
            evidence="persistence mode",
            fix="sudo systemctl enable --now nvidia-persistenced (or sudo nvidia-smi -pm 1)",
        )
    for mode, severity, effect in (
        ("Exclusive_Process", "info", "one process only can use it at a time"),
        ("Exclusive_Thread", "info", "one thread only can use it at a time"),
        ("E. Process", "info", "one process only can use it at a time"),
        ("Prohibited", "error", "no process can use it"),
    ):
        held = [device for device in gpus if device.details.get("compute_mode") == mode]
        if held:
            yield Finding(
                code="COMPUTE_MODE_PROHIBITED" if severity == "error" else "COMPUTE_MODE_EXCLUSIVE",
                severity="error" if severity == "error" else "info",
                message=f"{names(held)}: the compute mode is {mode}: {effect}.",
                evidence="compute mode",
                fix="sudo nvidia-smi -c DEFAULT",
            )
    pending = [device for device in gpus if (mig := device.details.get("mig") or {}) and mig.get("pending") not in (None, mig.get("mode"))]
    if pending:
        yield Finding(
            code="MIG_MODE_PENDING",
            severity="info",
            message=f"{names(pending)}: the MIG mode changes at the next reset.",
            evidence="MIG mode pending differs from current",
            fix="sudo nvidia-smi --gpu-reset",
        )


def mixtures(context: Context) -> Iterator[Finding]:
    """GPUs of several kinds in one machine: data parallel runs go at the pace of the slowest."""
    for target in ("cuda", "rocm", "xpu"):
        gpus = [
            device for device in _usable(context, target) if not device.details.get("integrated") and not device.details.get("mig_slice")
        ]
        products = sorted({device.name or device.pci_id or "unnamed" for device in gpus})
        sizes = {device.memory_bytes for device in gpus if device.memory_bytes is not None}
        if len(products) > 1 or (sizes and max(sizes) > 1.1 * min(sizes)):
            yield Finding(
                code="MIXED_GPUS",
                severity="warning",
                message=f"{len(gpus)} GPUs of several kinds: {', '.join(products)}; the least of them sets a parallel run's pace and size.",
                evidence=", ".join(format_bytes(size) for size in sorted(sizes)) or None,
                fix="choose equal ones with CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES",
            )
        small = [device for device in _usable(context, target) if device.details.get("integrated")]
        if gpus and small:
            yield Finding(
                code="INTEGRATED_BESIDE_DISCRETE",
                severity="info",
                message=f"{names(small)} is part of the processor and shares its memory; frameworks may choose it before {names(gpus)}.",
                evidence="integrated GPU",
                fix="hide it with HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES",
            )


def numbering(context: Context) -> Iterator[Finding]:
    """CUDA counts the fastest first, nvidia-smi by bus address."""
    gpus = [device for device in _usable(context, "cuda") if "cuda_index" in device.details and "nvml_index" in device.details]
    if any(device.details["cuda_index"] != device.details["nvml_index"] for device in gpus):
        pairs = ", ".join(f"cuda:{device.details['cuda_index']} is GPU {device.details['nvml_index']}" for device in gpus[:8])
        yield Finding(
            code="CUDA_ORDER_DIFFERS",
            severity="warning",
            message="CUDA numbers the GPUs otherwise than nvidia-smi does.",
            evidence=f"{pairs}; CUDA_DEVICE_ORDER={context.environ.get('CUDA_DEVICE_ORDER', 'not set')}",
            fix="export CUDA_DEVICE_ORDER=PCI_BUS_ID",
        )


def peers(context: Context) -> Iterator[Finding]:
    """GPUs that cannot reach each other's memory: traffic goes through host memory."""
    blocked = [device for device in _usable(context, "cuda") if device.details.get("p2p_blocked")]
    if blocked:
        yield Finding(
            code="P2P_UNAVAILABLE",
            severity="info",
            message=f"{names(blocked)}: no direct access to other GPUs ({len(blocked[0].details['p2p_blocked'])}); "
            "collectives go through host memory.",
            evidence="NVML peer-to-peer status",
            fix="normal for consumer cards; else check IOMMU and ACS settings (`nvidia-smi topo -p2p r`)",
        )


def shapes(context: Context) -> Iterator[Finding]:
    """Things a user should know that are no fault: unified memory, partitions, virtual GPUs."""
    unified = [
        device for device in accelerators(context) if device.memory_kind == "unified" and device.target in ("cuda", "rocm", "mps", "xpu")
    ]
    if unified and all(device.state == "usable" for device in unified):
        yield Finding(
            code="UNIFIED_MEMORY",
            severity="info",
            message=f"{names(unified)} shares the machine's memory: what the host uses is missing there.",
            evidence=str(unified[0].details.get("usable_rule") or "unified memory"),
            fix="none needed",
        )
    split = [device for device in accelerators(context) if device.details.get("partitions_of_package")]
    if split:
        packages = len({device.package for device in split})
        yield Finding(
            code="GPU_PARTITIONED",
            severity="info",
            message=f"{packages} GPUs are split into {len(split)} partitions, each a device with its own share of compute units.",
            evidence=str(split[0].details.get("compute_partition") or "KFD nodes that share a unique id"),
            fix="sudo amd-smi set --gpu all --compute-partition SPX joins them",
        )
    virtual = [device for device in accelerators(context) if "VGPU" in str(device.details.get("virtualization", "")).upper()]
    if virtual:
        yield Finding(
            code="VIRTUAL_GPU",
            severity="info",
            message=f"{names(virtual)} is a virtual GPU: a share of a card whose other users are not seen here.",
            evidence="virtualisation mode",
            fix="none needed; measure when the others are quiet",
        )


def overrides(context: Context) -> Iterator[Finding]:
    """HSA_OVERRIDE_GFX_VERSION makes ROCm take a GPU for another."""
    real = sorted({device.arch for device in accelerators(context) if device.target == "rocm" and device.arch})
    for name, text in sorted(context.environ.items()):
        if not re.fullmatch(r"HSA_OVERRIDE_GFX_VERSION(_\d+)?", name):
            continue
        arch = parse_override(text)
        if arch is None:
            yield Finding(
                code="HSA_OVERRIDE_MALFORMED",
                severity="error",
                message=f"{name} is not of the form MAJOR.MINOR.STEPPING: the ROCm runtime ends at start.",
                evidence=f"{name}={text}",
                fix=f"unset {name}",
            )
        elif real and arch not in real:
            yield Finding(
                code="HSA_OVERRIDE_SET",
                severity="warning",
                message=f"{name} makes ROCm take the GPU for {arch}; it is {', '.join(real)}. Kernels may be wrong or crash.",
                evidence=f"{name}={text}",
                fix=f"unset {name}, unless the framework carries no code for {real[0]}",
            )


def parse_override(text: str) -> str | None:
    """Return the gfx name of ``10.3.0`` (gfx1030) or ``9.0.10`` (gfx90a), None for any other form."""
    match = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{1,2})", text.strip())
    return gfx_name(int(match.group(1)) * 10000 + int(match.group(2)) * 100 + int(match.group(3))) if match else None


def driver_age(context: Context) -> Iterator[Finding]:
    """The driver serves an older CUDA than the framework was built for (minor versions of one major are compatible)."""
    offered = [str(device.details.get("cuda_driver_version") or "") for device in accelerators(context) if device.target == "cuda"]
    driver = next((found for text in offered if (found := _version(text)) is not None), None)
    if driver is None:
        return
    version = next((device.details.get("driver_version") for device in accelerators(context) if device.target == "cuda"), None)
    for framework in context.frameworks:
        details = getattr(framework, "details", None) or {}
        built = _version(str(details.get("cuda") or ""))
        if built is not None and built[0] > driver[0]:
            yield Finding(
                code="DRIVER_TOO_OLD",
                severity="error",
                message=f"{framework.name} was built for CUDA {built[0]}.{built[1]}, and the driver serves up to {driver[0]}.{driver[1]}.",
                evidence=f"driver {version}",
                fix=f"install a newer driver, or a build of {framework.name} for CUDA {driver[0]}",
            )


def _version(text: str) -> tuple[int, int] | None:
    match = re.match(r"(\d{1,3})\.(\d{1,3})", text)
    return (int(match.group(1)), int(match.group(2))) if match else None


def counts(context: Context) -> Iterator[Finding]:
    """The driver counts more GPUs than it lists."""
    gpus = [device for device in accelerators(context) if device.target == "cuda"]
    attached = max((device.details["attached_gpus"] for device in gpus if device.details.get("attached_gpus")), default=0)
    packages = len({device.package for device in gpus})
    if attached > packages > 0:
        yield Finding(
            code="GPU_COUNT_DIFFERS",
            severity="warning",
            message=f"nvidia-smi counts {attached} GPUs and lists {packages}.",
            evidence="attached GPUs",
            fix="record its whole output; on this machine check dmesg for a GPU that fell off the bus",
        )


FINDERS = (modes, mixtures, numbering, peers, shapes, overrides, driver_age, counts)
