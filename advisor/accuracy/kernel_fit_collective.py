"""Fit the collective curves: start and hop of each generation, efficiency and latency of each kind of link."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from advisor.accuracy.kernel_fit import (
    ENOUGH,
    Floats,
    Residual,
    Values,
    alternate,
    by_sheet,
    columns,
    generations,
    geometric_mean,
    least_squares,
)
from advisor.accuracy.kernel_queries import KernelQuery
from advisor.cost.calibration import Calibration
from advisor.cost.kernels import collective
from advisor.cost.kernels.generation import generation_of

#: Rows that determine efficiency and latency of a network between nodes.
_ENOUGH_NETWORK = 20
_COLLECTIVE_GENERATION = (*collective.PER_GENERATION, *collective.PER_KIND)


def fit_collective(queries: Sequence[KernelQuery]) -> Values:
    """Return ``collective.<name>[.<kind>].<generation>``, ``….any`` and the global ``collective.<name>`` from single-node rows.

    Efficiency and chunk of networks between nodes are fitted on the rows that cross nodes, with everything inside a node held.
    """
    inside = generations(q for q in queries if len(q.tiers) == 1)
    rich = {g: rows for g, rows in sorted(inside.items()) if len(rows) >= ENOUGH}
    if not rich:
        return {}
    kinds = {g: collective.kind_of(rows[0].tiers[0]) for g, rows in inside.items()}
    residuals = {g: _collective_residual(rows, g, kinds[g]) for g, rows in inside.items()}
    start = {g: {p.name: p.prior for p in _COLLECTIVE_GENERATION} | _kind_priors(kinds[g]) for g in inside}
    common, single = alternate({g: residuals[g] for g in rich}, _COLLECTIVE_GENERATION, collective.GLOBAL, start)
    mean = geometric_mean(single.values(), ("start", "hop"))
    for g in sorted(set(inside) - set(rich)):
        base, residual = {**common, **start[g], **mean}, residuals[g]

        def held(v: Values, residual: Residual = residual, base: Values = base) -> Floats:
            return residual({**base, **v})

        own = [p for p in _COLLECTIVE_GENERATION if p.name in ("efficiency", "chunk")]
        single[g] = mean | least_squares(held, own, start[g])
    out = {f"collective.{p}": v for p, v in common.items()}
    for g, values in single.items():
        out |= {f"collective.{p}.{g}": values[p] for p in ("start", "hop")}
        out |= {f"collective.{p}.{kinds[g]}.{g}": values[p] for p in ("efficiency", "chunk")}
    out |= {f"collective.{p}.any": v for p, v in mean.items()}
    for kind in sorted(set(kinds.values())):
        both = geometric_mean([single[g] for g in single if kinds[g] == kind], ("efficiency", "chunk"))
        out |= {f"collective.{p}.{kind}.any": v for p, v in both.items()}
    return out | _fit_network([q for q in queries if len(q.tiers) > 1], out)


def _kind_priors(kind: str) -> Values:
    return dict(zip(("efficiency", "chunk"), collective.KINDS[kind], strict=True))


def _fit_network(queries: Sequence[KernelQuery], inside: Mapping[str, float]) -> Values:
    """Return efficiency and chunk of each kind of network between nodes that has rows enough, everything inside a node as fitted."""
    calibration = Calibration(sections={"kernels": {"parameters": {name: {"value": v} for name, v in inside.items()}}})
    out: Values = {}
    for kind in sorted({collective.kind_of(q.tiers[-1]) for q in queries} - {"nvlink", "xgmi", "pcie"}):
        rows = [q for q in queries if collective.kind_of(q.tiers[-1]) == kind]
        if len(rows) < _ENOUGH_NETWORK:
            continue
        residual = _network_residual(rows, kind, calibration)
        found = least_squares(residual, collective.PER_KIND, _kind_priors(kind))
        out |= {f"collective.{p}.{kind}.any": v for p, v in found.items()}
    return out


def _network_residual(rows: Sequence[KernelQuery], kind: str, calibration: Calibration) -> Residual:
    parts = []
    for members in by_sheet(rows).values():
        given = collective.parameters(calibration, generation_of(members[0].sheet))
        for tiers in sorted({q.tiers for q in members}, key=str):
            same = [q for q in members if q.tiers == tiers]
            parts.append((given, same[0], columns(same, ("bytes", "group")), np.log([q.measured_s for q in same])))

    def residual(v: Values) -> Floats:
        out = []
        for given, first, (size, group), measured in parts:
            p = replace(given, kinds={**given.kinds, kind: (v["efficiency"], v["chunk"])})
            memory = (first.sheet.memory_gb_per_s or 1000.0) * 1e9
            out.append(
                np.log(collective.seconds(p, first.op, size, group, first.tiers, memory_bytes_per_s=memory, issued=first.issued)) - measured
            )
        return np.concatenate(out)

    return residual


def _collective_residual(rows: Sequence[KernelQuery], generation: str, kind: str) -> Residual:
    parts: list[tuple[str, Floats, Floats, Any, dict[str, Any], Floats]] = []
    groups: dict[tuple[str, str, bool, bool, bool], list[KernelQuery]] = defaultdict(list)
    for q in rows:
        groups[q.sheet.id, q.op, q.dtype == "int8", q.switch is False, q.issued].append(q)
    for (_, op, integer, ring, issued), members in groups.items():
        sheet = members[0].sheet
        size, group = columns(members, ("bytes", "group"))
        measured = np.log([q.measured_s for q in members])
        more = {
            "peer_to_peer": sheet.peer_to_peer,
            "memory_bytes_per_s": (sheet.memory_gb_per_s or 1000.0) * 1e9,
            "reducible": not (integer or ring),
            "issued": issued,
        }
        parts.append((op, size, group, members[0].tiers, more, measured))

    def residual(v: Values) -> Floats:
        kinds = {name: (v["efficiency"], v["chunk"]) if name == kind else both for name, both in collective.KINDS.items()}
        p = collective.CollectiveParameters(v, kinds, generation in collective.SWITCH_REDUCES)
        return np.concatenate(
            [np.log(collective.seconds(p, op, size, group, tiers, **more)) - measured for op, size, group, tiers, more, measured in parts]
        )

    return residual
