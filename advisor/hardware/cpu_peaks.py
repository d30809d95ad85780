"""Dense peak of a CPU from what the probe saw, since a sheet cannot know how many cores, at what clock, this process may use.

    peak(type) = usable cores x multiply-adds a cycle and core (type) x 2 x clock

Multiply-adds a cycle come from ``hardware_profiles/vector_units.yaml``: by microarchitecture where it is listed, else by the widest
instruction set the kernel reports. The clock is the highest the probe saw; under wide vectors a core may run slower.
"""

from __future__ import annotations

from functools import cache

import msgspec

from advisor.hardware.records import HardwareProfile, Sheet
from advisor.probe.records import Cpu, Device, Machine
from advisor.resources import data_dir
from advisor.units import GIB, MIB
from advisor.yamlio import read_yaml

#: Clock taken where the probe saw none (virtual machines hide it): a usual boost clock of server cores, so an upper bound. Notes say so.
_UNKNOWN_CLOCK_MHZ = 3500.0


class _Core(Sheet, frozen=True, kw_only=True, forbid_unknown_fields=True):
    fma_per_cycle: float
    ratio: dict[str, float] = {}  # noqa: RUF012 - msgspec copies a default for each record
    flags: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    note: str | None = None


class _TypeRule(Sheet, frozen=True, kw_only=True, forbid_unknown_fields=True):
    flag: str
    ratio: float | None = None
    per_cycle: float | None = None
    sources: tuple[str, ...] = ()


class _Units(Sheet, frozen=True, kw_only=True, forbid_unknown_fields=True):
    microarchitectures: dict[str, _Core]
    instruction_sets: tuple[_Core, ...]
    type_flags: dict[str, tuple[_TypeRule, ...]]


@cache
def _units() -> _Units:
    return msgspec.convert(read_yaml(data_dir("hardware_profiles") / "vector_units.yaml"), _Units, strict=True)


def usable_cores(cpu: Cpu) -> float | None:
    """Return the physical cores this process may use, as a float (a quota of 1.5 CPUs is 1.5); None if the probe saw none.

    Hyper-threads of one core share its vector units, so no more than the physical cores count.
    """
    counts = [count for count in (cpu.usable_cpus, cpu.physical_cores) if count]
    return float(min(counts)) if counts else None


def fma_per_cycle(cpu: Cpu) -> dict[str, float]:
    """Return multiply-adds a cycle and core by dtype; empty where nothing is known of the instruction set."""
    units, flags = _units(), set(cpu.isa)
    name = (cpu.microarchitecture or "").lower().replace(" ", "_").replace("-", "_")
    core = units.microarchitectures.get(name) or next((c for c in units.instruction_sets if flags.issuperset(c.flags)), None)
    if core is None:
        return {}
    rates = {"fp32": core.fma_per_cycle, "fp64": core.fma_per_cycle / 2, **{t: core.fma_per_cycle * r for t, r in core.ratio.items()}}
    for dtype, rules in units.type_flags.items():
        rule = next((rule for rule in rules if rule.flag in flags), None)
        if rule is not None and dtype not in core.ratio:
            rates[dtype] = rule.per_cycle if rule.per_cycle else core.fma_per_cycle * (rule.ratio or 1.0)
    return rates


def profile_of(machine: Machine, device: Device, cores: float | None, sheet: HardwareProfile | None) -> HardwareProfile:
    """Return a sheet of this CPU as this process may use it: peaks computed, the rest from ``sheet`` or the probe; unknown stays None."""
    cpu, memory = machine.host.cpu, machine.host.memory
    clock = cpu.max_mhz or (sheet.boost_mhz if sheet else None)
    cycles = (clock or _UNKNOWN_CLOCK_MHZ) * 1e6
    peaks = {dtype: (cores or 1.0) * rate * 2 * cycles / 1e12 for dtype, rate in fma_per_cycle(cpu).items()}
    last = max((c for c in cpu.caches if c.kind != "instruction" and c.level >= 2), key=lambda c: c.level, default=None)
    notes = "Peaks: usable cores x multiply-adds a cycle x 2 x clock." + ("" if clock else " The clock is not known: 3500 MHz taken.")
    return HardwareProfile(
        id=sheet.id if sheet else "local-cpu",
        name=cpu.model or device.name or "CPU",
        vendor=cpu.vendor or (sheet.vendor if sheet else "unknown"),
        target=device.target,
        arch=cpu.microarchitecture or (sheet.arch if sheet else None) or machine.host.arch,
        architecture=sheet.architecture if sheet else cpu.microarchitecture,
        dense_tflops=peaks,
        memory_gib=None if memory.usable_bytes is None else memory.usable_bytes / GIB,
        memory_kind="unified",
        memory_gb_per_s=sheet.memory_gb_per_s if sheet else None,
        l2_mib=None if last is None else last.size_bytes * (last.count or 1) / MIB,
        compute_units=None if cores is None else max(1, int(cores)),
        boost_mhz=clock,
        tdp_w=sheet.tdp_w if sheet else None,
        sources={"dense_tflops": ("agner", "arm", "amx")},
        notes=notes,
    )
