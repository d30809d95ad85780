"""BenchSpec: what is to be measured, and how long it may take."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Seconds a benchmark may take by default, all its backends together.
QUICK_S = 45.0
FULL_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSpec:
    """What to measure. None means: all that is there.

    ``device`` is the framework's own name (``cpu``, ``cuda:0``), ``device_id`` the id of the probe that measurements carry,
    ``driver`` the version of its driver.
    ``shapes`` are (m, n, k) for GEMM; ``networks`` descriptions for the model benchmark. ``interpreters`` maps a backend to the python of
    the environment it lives in, where that is not ours.
    """

    benchmarks: tuple[str, ...]
    backends: tuple[str, ...] | None = None
    dtypes: tuple[str, ...] | None = None
    device: str = "cpu"
    device_id: str = "cpu0"
    driver: str | None = None
    threads: int | None = None
    shapes: tuple[tuple[int, int, int], ...] | None = None
    networks: tuple[Mapping[str, Any], ...] | None = None
    quick: bool = False
    budget_s: float | None = None
    rounds: int | None = None
    seed: int | None = None
    memory_limit_bytes: int | None = None
    interpreters: Mapping[str, str] = field(default_factory=dict)
    elsewhere: tuple[str, ...] = ()
    """Backends that are measured unasked although only an environment of their own has them."""

    @property
    def total_s(self) -> float:
        """Seconds for everything."""
        return self.budget_s if self.budget_s is not None else (QUICK_S if self.quick else FULL_S) * len(self.benchmarks)

    @property
    def round_count(self) -> int:
        """Rounds of fresh processes: at least two, since one process cannot tell how much the next one differs."""
        return self.rounds or (2 if self.quick else 3)

    def plan_document(self) -> dict[str, Any]:
        """Return the specification as ``microbench.plan`` reads it."""
        return {
            "benchmarks": list(self.benchmarks),
            "backends": None if self.backends is None else list(self.backends),
            "dtypes": None if self.dtypes is None else list(self.dtypes),
            "device": self.device,
            "threads": self.threads or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1),
            "shapes": None if self.shapes is None else [list(shape) for shape in self.shapes],
            "networks": None if self.networks is None else [dict(network) for network in self.networks],
            "quick": self.quick,
            "elsewhere": list(self.elsewhere),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a bench stands: which child runs, how many are done, and about how long is left."""

    label: str
    done: int
    total: int
    seconds_left: float
