"""One CPU dealt out to several processes: ``--fix devices=N`` on this machine, for plans that torchrun or JAX run over N of them."""

from __future__ import annotations

from dataclasses import replace

from advisor.errors import UsageError
from advisor.hardware.platform import NetworkTier
from advisor.usecases.platforms import ResolvedHardware

#: Gloo between processes of one host goes through the loopback interface. `advisor bench collective --backend torch` on two cores of an
#: AMD EPYC (torch 2.13): 16 MiB sent at 1.05 GB/s; an all-reduce of 1 KiB between two processes, which is two steps, took 1.0 ms.
LOOPBACK_BYTES_PER_S, LOOPBACK_LATENCY_S = 1.05e9, 5e-4
#: More processes than this on one CPU measure the scheduler of the system.
MOST = 64


def dealt_out(hardware: ResolvedHardware, processes: int) -> ResolvedHardware:
    """Return this machine's CPU as ``processes`` devices: each its share of the cores and of the memory, joined by the loopback."""
    platform = hardware.platform
    if not 1 <= processes <= MOST:
        raise UsageError(f"one CPU is dealt out to 1 to {MOST} processes, not {processes}", code="OUT-OF-RANGE")
    memory = None if platform.memory_bytes is None else platform.memory_bytes // processes
    tier = NetworkTier(
        name="loopback", kind="ethernet", group=processes, bandwidth_bytes_per_s=LOOPBACK_BYTES_PER_S, latency_s=LOOPBACK_LATENCY_S
    )
    shared = replace(platform, devices=processes, threads=max(1, platform.threads // processes), memory_bytes=memory, tiers=(tier,))
    note = f"the CPU of this machine is dealt out to {processes} processes of {shared.threads} threads each"
    return replace(hardware, platform=shared, notes=(*hardware.notes, note))
