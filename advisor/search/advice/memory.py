"""Memory beside the verdict: how much is free, what counts as memory, the peak while loading, and what would relieve a tight plan."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from advisor.search.advice._case import Case
from advisor.search.objective import HEADROOM
from advisor.search.records import Reason
from advisor.units import GIB, format_bytes

#: Above this share of the device's memory a plan is called tight: lengths that vary and fragmentation take the rest.
TIGHT = 1.0 - HEADROOM
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
    else:
        yield _roomy(case, used, float(limit))
    yield _units(case, float(limit))
    if case.workload.is_training and case.platform.devices > 1:
        yield from _loading(case, float(limit))


def _roomy(case: Case, used: float, limit: float) -> Reason:
    """Say what stays free, and what the plans at the brim would gain."""
    free = 1.0 - used / limit
    text = f"{100 * free:.0f} % of the memory stays free for lengths that vary and for the error of the prediction"
    chosen, ranking = case.sibling(), case.ranking
    gain = 0.0
    if chosen is not None and ranking is not None and "headroom_bytes" in ranking.constraints:
        others = [values <= 0 for name, values in ranking.constraints.items() if name != "headroom_bytes"]
        same = ranking.plans.columns["global_batch"] == ranking.plans.columns["global_batch"][chosen]
        tight = np.all([*others, same, ranking.constraints["headroom_bytes"] > 0, ~ranking.unverified | ranking.unverified[chosen]], axis=0)
        if tight.any():
            gain = float(ranking.score[chosen] / ranking.score[tight].min() - 1.0)
    if gain > 0.0005:
        text += f"; a plan that leaves less than {100 * HEADROOM:.0f} % is predicted {100 * gain:.1f} % better, too little for the risk"
    return Reason(code="HEADROOM", text=text, value=free, detail={"free": free, "price": max(gain, 0.0)})


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
    bar, chosen, ranking = (1.0 - HEADROOM) * limit, case.sibling(), case.ranking
    if chosen is not None and ranking is not None and ranking.feasible[chosen]:
        same = ranking.plans.columns["global_batch"] == ranking.plans.columns["global_batch"][chosen]
        roomy = ranking.feasible & same & (ranking.priced.memory_bytes <= bar) & (~ranking.unverified | ranking.unverified[chosen])
        if roomy.any():
            price = float(ranking.score[roomy].min() / ranking.score[chosen] - 1.0)
            text += (
                f"; the best plan with a tenth of the memory free is {100 * price:.0f} % worse (--limit memory_bytes_per_device={bar:.0f})"
            )
    return Reason(code="TIGHT", text=text, value=used / limit)


def _units(case: Case, limit: float) -> Reason:
    name, count = case.platform.profile.name, case.platform.devices
    text = f"one {name} holds {limit / GIB:.1f} GiB = {limit / 1e9:.1f} GB"
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
