"""The host CPU: threads no more than usable cores, and how several processes share them."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.search.advice._case import Case
from advisor.search.records import Reason


def host_advice(case: Case) -> Iterator[Reason]:
    """Yield the thread settings of a plan on a CPU."""
    p = case.platform
    if not p.is_cpu:
        return
    threads = case.plan.threads
    text = (
        f"{threads} thread{'s' if threads > 1 else ''} (OMP_NUM_THREADS, intra-op), of {p.threads} usable: physical cores capped "
        f"by affinity and the "
        "cgroup quota; several processes divide them (cores / processes each), pinned to cores of their own; hyper-threads add "
        "nothing to products"
    )
    yield Reason(code="THREADS", text=text, value=float(threads), detail={"threads": threads, "usable": p.threads})
