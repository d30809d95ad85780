"""Memory beside the verdict: how much is free, what counts as memory, the peak while loading, and what would relieve a tight plan."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.search.advice._case import Case
from advisor.search.objective import HEADROOM
from advisor.search.records import Reason
from advisor.units import GIB, format_bytes

#: Above this share of the device's memory a plan is called tight: lengths that vary and fragmentation take the rest.
TIGHT = 0.90
#: Changes that save memory, the cheapest in time first, with what they cost.
_RELIEF = (
    ("attention", "flash", "no more time"),
    ("recompute", "selective", "a little more arithmetic"),
    ("recompute", "full", "about a third more arithmetic"),
    ("sharding", "zero1", "no more bytes on the network than plain data parallelism"),
    ("sharding", "fsdp", "half as many bytes again on the network"),
    ("offload", "optimizer", "an optimizer step on the host"),
)


def memory_advice(case: Case) -> Iterator[Reason]:
    """Yield what a reader should know of the memory of the chosen plan."""
    used, limit = case.memory_bytes, case.platform.memory_bytes
    if used is None or not limit:
        return
    if used > TIGHT * limit:
        yield _tight(case, used, float(limit))
    elif case.workload.global_batch is None:
        free = 1.0 - used / limit
        text = f"{100 * free:.0f} % of the memory stays free (at least {100 * HEADROOM:.0f} % where the batch is chosen here)"
        yield Reason(code="HEADROOM", text=text, value=free)
    yield _units(case, float(limit))
    if case.workload.is_training and case.platform.devices > 1:
        yield from _loading(case, float(limit))


def _tight(case: Case, used: float, limit: float) -> Reason:
    ways = []
    for field, value, price in _RELIEF:
        row = case.sibling(**{field: value}, **({"shard_degree": case.plan.dp * case.plan.cp} if field == "sharding" else {}))
        if row is None or case.ranking is None or getattr(case.plan, field) == value:
            continue
        saved = used - float(case.ranking.priced.memory_bytes[row])
        if saved > 0.01 * limit:
            ways.append(f"{field}={value} saves {format_bytes(saved)} for {price}")
    text = f"tight: {100 * used / limit:.0f} % of the memory, so fragmentation or one longer batch may end it"
    if case.plan.dp == 1 and case.workload.is_training and case.plan.sharding == "none":
        text += "; sharding saves nothing here, since dp is 1"
    if ways:
        text += "; to relieve it: " + "; ".join(ways[:3])
    return Reason(code="TIGHT", text=text, value=used / limit)


def _units(case: Case, limit: float) -> Reason:
    name, count = case.platform.profile.name, case.platform.devices
    text = f"a {name} holds {limit / GIB:.1f} GiB = {limit / 1e9:.1f} GB"
    if count > 1:
        text += (
            f"; what counts is the memory of each device, not the sum of {count} ({count * limit / 1e9:,.0f} GB): what is "
            f"replicated does not"
        )
        text += " shrink with more devices"
    return Reason(code="PER-DEVICE", text=text, value=limit)


def _loading(case: Case, limit: float) -> Iterator[Reason]:
    """Wrapping a model that every rank has loaded in fp32 needs 4 B a parameter before anything is sharded."""
    plan = case.plan
    if plan.sharding not in ("zero3", "fsdp", "hsdp") or plan.adapter == "qlora":
        return
    peak = 4.0 * case.model.parameters / (plan.tp * plan.pp)
    ranks = case.platform.devices_per_node
    host = 4.0 * case.model.parameters * ranks
    where = "more than a device holds" if peak > limit else "on top of nothing else"
    text = (
        f"loading: a whole fp32 copy on each rank takes {format_bytes(peak)} before it is sharded ({where}), and {ranks} ranks that each "
        f"load it take {format_bytes(host)} of a node's memory; initialize on the meta device and load on rank 0 alone (accelerate: "
        "fsdp_cpu_ram_efficient_loading and fsdp_sync_module_states true)"
    )
    yield Reason(code="INIT-PEAK", text=text, value=peak, detail={"device_bytes": peak, "host_bytes": host, "exceeds": peak > limit})
