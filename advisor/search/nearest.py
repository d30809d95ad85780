"""Where nothing fits: the smallest hardware and the smallest changes that would do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from advisor.errors import UsageError
from advisor.search.analytic import Ranking, rank
from advisor.search.records import Nearest

if TYPE_CHECKING:
    from advisor.cost.calibration import Calibration
    from advisor.hardware.platform import Platform
    from advisor.hardware.records import HardwareProfile
    from advisor.model.records import Model
    from advisor.plan.records import Workload

#: Device counts tried: whole powers of two, as nodes and rental offers come.
COUNTS = tuple(2**i for i in range(13))
#: Products offered as a way out when the user names none of their own: what clouds rent and the sheets know well.
USUAL = ("rtx-4090", "l40s", "a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm5-141gb", "mi300x", "b200-sxm", "tpu-v5p")

PlatformOf = Callable[[str], "Platform"]


def smallest_count(
    model: Model,
    workload: Workload,
    profile: HardwareProfile,
    calibration: Calibration,
    platform_of: PlatformOf,
    fixed: Mapping[str, Any] | None = None,
    *,
    at_most: int = COUNTS[-1],
) -> tuple[str, Ranking] | None:
    """Return the hardware text and ranking of the fewest devices of ``profile`` that do it without offload, or None.

    A lower bound on memory (two bytes a parameter for inference at eight bits at the best, weights alone) skips hopeless counts.
    """
    floor = minimum_bytes(model, workload) / (profile.memory_gib * 2**30) if profile.memory_gib else 1.0
    for count in COUNTS:
        if count < floor or count > at_most:
            continue
        text = f"{count}x{profile.id}"
        try:
            platform = platform_of(text)
        except UsageError:
            return None  # so many of this product are not sold together: no sheet names a network between its nodes
        pinned = _without_counts(fixed)
        # More sequences only need more memory: where one a device does not fit, and no limit asks for more, nothing does.
        least = rank(model, workload, platform, calibration, pinned, offload=False, grid="least")
        if not workload.limits and not len(least.order):
            continue
        ranking = rank(model, workload, platform, calibration, pinned, offload=False, grid="coarse")
        ranking = ranking if len(ranking.order) else least
        if len(ranking.order):
            return text, ranking
    return None


def minimum_bytes(model: Model, workload: Workload) -> float:
    """Return a floor under the memory that all devices together must hold, in bytes.

    Training with Adam in mixed precision keeps 16 B a parameter (Rajbhandari et al. 2020, ZeRO, section 3.1); fine-tuning may
    freeze four-bit weights (QLoRA), and inference may hold them in four bits: half a byte each.
    """
    return model.parameters * (16.0 if workload.task == "train" else 0.5)


def ways_out(
    model: Model,
    workload: Workload,
    platform: Platform,
    calibration: Calibration,
    platform_of: PlatformOf,
    profiles: Sequence[HardwareProfile],
    fixed: Mapping[str, Any] | None = None,
) -> list[Nearest]:
    """Return what would do it, the least change first: on the same devices, with more of them, and on other products."""
    found = list(_smaller_jobs(model, workload, platform, calibration, fixed))
    hardware: list[tuple[tuple[float, ...], Nearest]] = []
    for profile in profiles:
        same = profile.id == platform.profile.id
        best = smallest_count(model, workload, profile, calibration, platform_of, fixed, at_most=COUNTS[-1] if same else 1024)
        if best is None:
            continue
        text, ranking = best
        row = int(ranking.order[0])
        count = ranking.context.platform.devices
        change = f"{count} × {profile.name}" + (" (more of the same)" if same else "")
        size = (0.0 if same else 1.0, float(count), float(profile.memory_gib or 0.0))
        hardware.append((size, Nearest(change=change, hardware=text, plan=ranking.plans.plan(row), estimate=ranking.priced.estimate(row))))
    hardware.sort(key=lambda pair: pair[0])
    return [*found, *(nearest for _, nearest in hardware)]


def _smaller_jobs(
    model: Model, workload: Workload, platform: Platform, calibration: Calibration, fixed: Mapping[str, Any] | None
) -> Iterator[Nearest]:
    """Yield changes of the job that make it fit on the same devices: offload, one sequence at a time, a shorter sequence."""
    tries: list[tuple[str, Workload, bool]] = []
    if workload.is_training:
        tries.append(("offload to the host's memory", workload, True))
    if workload.global_batch is not None and workload.global_batch > platform.devices:
        tries.append(
            (f"a batch of {platform.devices} instead of {workload.global_batch}", replace(workload, global_batch=platform.devices), False)
        )
    if workload.seq_len >= 1024 and model.sample == "sequence":
        half = workload.seq_len // 2
        shorter = replace(workload, seq_len=half, input_len=_half(workload.input_len), output_len=_half(workload.output_len))
        tries.append((f"sequences of {half} instead of {workload.seq_len}", shorter, False))
    for change, job, offload in tries:
        ranking = rank(model, job, platform, calibration, fixed, offload=offload, grid="coarse")
        if len(ranking.order):
            row = int(ranking.order[0])
            yield Nearest(change=change, hardware=platform.name, plan=ranking.plans.plan(row), estimate=ranking.priced.estimate(row))


def _half(length: int | None) -> int | None:
    return None if length is None else max(1, length // 2)


def _without_counts(fixed: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the pinned fields that still make sense on another number of devices and another framework's device."""
    return {key: value for key, value in (fixed or {}).items() if key not in ("devices", "dp", "shard_degree", "threads", "framework")}
