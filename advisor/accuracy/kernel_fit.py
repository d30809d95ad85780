"""Fit the parameters of the kernel curves on published kernel measurements.

One robust least squares of log(predicted / measured) for each generation (and library class), with the parameters that are shared
between generations fitted in turns; priors hold what the rows do not determine. A generation with fewer than ``_ENOUGH`` rows of a
class has only its ceiling fitted, the rest is the geometric mean over the others, which also stands as ``any`` for devices that nobody
measured. Deterministic: no random start, no sampling.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.accuracy.kernel_queries import KernelQuery
from advisor.cost.curves import peak_of
from advisor.cost.kernels import attention, collective, gemm
from advisor.cost.kernels.generation import KernelParameter, generation_of
from advisor.hardware.records import HardwareProfile

Floats = npt.NDArray[np.float64]
Values = dict[str, float]
#: Rows that determine all parameters of a generation; below, only its ceiling is fitted.
_ENOUGH = 100
#: Rows of one generation and class beyond which a fit is thinned.
_MOST = 1000
#: Scale of the robust loss: errors beyond about 8 % count linearly.
_ROBUST = 0.08
#: Weight of a prior beside the rows: one prior standard deviation (a factor e) counts like this share of a row's 8 %.
_PRIOR_WEIGHT = 0.05


def least_squares(residual: Callable[[Values], Floats], declared: Sequence[KernelParameter], start: Mapping[str, float]) -> Values:
    """Return the values of ``declared`` that minimise a soft-L1 loss of ``residual``, in log space, within bounds."""
    from scipy import optimize

    names = [p.name for p in declared]
    low, high = np.log([p.low for p in declared]), np.log([p.high for p in declared])
    prior = np.log([p.prior for p in declared])
    first = np.clip(np.log([start[n] for n in names]), low + 1e-3, high - 1e-3)

    def with_prior(x: Floats) -> Floats:
        return np.concatenate([residual(dict(zip(names, np.exp(x), strict=True))), _PRIOR_WEIGHT * (x - prior)])

    found = optimize.least_squares(with_prior, first, bounds=(low, high), loss="soft_l1", f_scale=_ROBUST, max_nfev=40)
    return dict(zip(names, (float(v) for v in np.exp(found.x)), strict=True))


def geometric_mean(values: Iterable[Mapping[str, float]], names: Iterable[str]) -> Values:
    """Return the geometric mean of each name over the mappings."""
    rows = list(values)
    return {name: float(np.exp(np.mean([np.log(row[name]) for row in rows]))) for name in names}


def _columns(queries: Sequence[KernelQuery], names: Sequence[str]) -> Floats:
    return np.array([[q.sizes[n] for q in queries] for n in names], dtype=np.float64)


def _by_sheet(queries: Iterable[KernelQuery]) -> dict[str, list[KernelQuery]]:
    groups: dict[str, list[KernelQuery]] = defaultdict(list)
    for query in queries:
        groups[f"{query.sheet.id}/{query.dtype}/{query.op}"].append(query)
    return groups


def fit_gemm(queries: Sequence[KernelQuery]) -> Values:
    """Return ``gemm.<name>.<class>.<generation>``, ``….any`` and ``gemm.<name>.<class>`` from the GEMM queries."""
    out: Values = {}
    for name in gemm.CLASSES:
        mine = [q for q in queries if gemm.dtype_class(q.dtype) == name and _native(q)]
        residuals: dict[str, Callable[[Values], Floats]] = {}
        counts: dict[str, int] = {}
        for generation, rows in _generations(mine).items():
            residuals[generation] = _gemm_residual(_thinned(rows), name)
            counts[generation] = len(rows)
        rich = [g for g in sorted(residuals) if counts[g] >= _ENOUGH]
        if not rich:
            continue
        common = {p.name: p.prior for p in gemm.PER_CLASS}
        single = {g: {p.name: p.prior for p in gemm.PER_GENERATION} for g in rich}
        for turn in range(3):
            for g in rich:
                single[g] = least_squares(lambda v, g=g: residuals[g]({**common, **v}), gemm.PER_GENERATION, single[g])  # type: ignore[misc]
            if turn < 2:
                common = least_squares(
                    lambda v: np.concatenate([residuals[g]({**single[g], **v})[::3] for g in rich]), gemm.PER_CLASS, common
                )
        mean = geometric_mean(single.values(), [p.name for p in gemm.PER_GENERATION])
        ceiling = [p for p in gemm.PER_GENERATION if p.name == "ceiling"]
        for g in sorted(set(residuals) - set(rich)):
            single[g] = mean | least_squares(lambda v, g=g: residuals[g]({**common, **mean, **v}), ceiling, mean)  # type: ignore[misc]
        out |= {f"gemm.{p}.{name}.{g}": v for g, values in {**single, "any": mean}.items() for p, v in values.items()}
        out |= {f"gemm.{p}.{name}": v for p, v in common.items()}
    return out


def _thinned(rows: Sequence[KernelQuery]) -> Sequence[KernelQuery]:
    """Return every n-th row so that at most about ``_MOST`` remain: more shapes of one kind no longer move the fit, but slow it."""
    return rows[:: -(-len(rows) // _MOST)]


def _native(query: KernelQuery) -> bool:
    dtype = "fp8" if query.dtype == "fp8_block" else query.dtype
    return dtype in query.sheet.dense_tflops or dtype in ("bf16", "fp16")


def _generations(queries: Iterable[KernelQuery]) -> dict[str, list[KernelQuery]]:
    groups: dict[str, list[KernelQuery]] = defaultdict(list)
    for query in queries:
        groups[generation_of(query.sheet)].append(query)
    return groups


def device_numbers(sheet: HardwareProfile, dtype: str) -> dict[str, Any]:
    """Return peak, bandwidth, units and last cache of a sheet in SI units, with the priors of ``curves_for`` where it is silent."""
    return {
        "peak": peak_of({d: v * 1e12 for d, v in sheet.dense_tflops.items()}, "fp8" if dtype == "fp8_block" else dtype),
        "bandwidth": (sheet.memory_gb_per_s or 1000.0) * 1e9,
        "units": sheet.compute_units or 80,
        "l2": (sheet.l2_mib or 40.0) * 2**20,
    }


def _gemm_residual(rows: Sequence[KernelQuery], name: str) -> Callable[[Values], Floats]:
    parts = []
    for members in _by_sheet(rows).values():
        first = members[0]
        numbers = device_numbers(first.sheet, first.dtype)
        measured = np.log([q.measured_s for q in members])
        parts.append((_columns(members, ("m", "n", "k")), gemm.element_bytes(first.dtype), numbers, measured))

    def residual(v: Values) -> Floats:
        return np.concatenate(
            [np.log(gemm.formula(v, sizes, name, element, **numbers)) - measured for sizes, element, numbers, measured in parts]
        )

    return residual


def fit_attention(queries: Sequence[KernelQuery]) -> Values:
    """Return ``attention.<name>.<generation>`` and ``….any``; heads wider than 256 run another kernel and are left out."""
    out: Values = {}
    fitted: dict[str, Values] = {}
    for generation, rows in sorted(_generations(q for q in queries if q.sizes["head_dim"] <= 256).items()):
        if len(rows) < _ENOUGH:
            continue
        wide = [q for q in rows if q.sizes["query"] > 1]
        single = [q for q in rows if q.sizes["query"] == 1]
        values: Values = {p.name: p.prior for p in attention.PARAMETERS}
        for members, declared in ((single, attention.DECODE), (wide, attention.PREFILL)):
            if len(members) >= _ENOUGH:
                residual = _attention_residual(members)
                values |= least_squares(lambda v, r=residual, base=dict(values): r({**base, **v}), declared, values)  # type: ignore[misc]
        fitted[generation] = values
    if fitted:
        fitted["any"] = geometric_mean(fitted.values(), [p.name for p in attention.PARAMETERS])
    for generation, values in fitted.items():
        out |= {f"attention.{p}.{generation}": v for p, v in values.items()}
    return out


def _attention_residual(rows: Sequence[KernelQuery]) -> Callable[[Values], Floats]:
    parts = []
    for members in _by_sheet(rows).values():
        numbers = device_numbers(members[0].sheet, members[0].dtype)
        del numbers["l2"]
        names = ("batch", "heads", "kv_heads", "query", "keys", "head_dim")
        parts.append(
            (dict(zip(names, _columns(members, names), strict=True)), numbers, members[0].dtype, np.log([q.measured_s for q in members]))
        )

    def residual(v: Values) -> Floats:
        values = attention.AttentionParameters(v)
        return np.concatenate(
            [
                np.log(attention.seconds(values, **sizes, causal=True, dtype=dtype, backward=False, **numbers)) - measured
                for sizes, numbers, dtype, measured in parts
            ]
        )

    return residual


_COLLECTIVE_GENERATION = (
    *collective.PER_GENERATION,
    *(KernelParameter(name=p.name, prior=p.prior, low=p.low, high=p.high, unit=p.unit, meaning=p.meaning) for p in collective.PER_KIND),
)


def fit_collective(queries: Sequence[KernelQuery]) -> Values:
    """Return ``collective.<name>[.<kind>].<generation>``, ``….any`` and the global ``collective.<name>`` from single-node rows.

    Efficiency and chunk of networks between nodes are fitted on the rows that cross nodes, with everything inside a node held.
    """
    inside = [q for q in queries if len(q.tiers) == 1 and q.measured_s > 0]
    generations = {g: rows for g, rows in sorted(_generations(inside).items()) if len(rows) >= _ENOUGH}
    if not generations:
        return {}
    kind = {g: collective.kind_of(rows[0].tiers[0]) for g, rows in generations.items()}
    residuals = {g: _collective_residual(rows, g, kind[g]) for g, rows in generations.items()}
    common = {p.name: p.prior for p in collective.GLOBAL}
    single: dict[str, Values] = {
        g: {p.name: p.prior for p in _COLLECTIVE_GENERATION} | dict(zip(("efficiency", "chunk"), collective.KINDS[kind[g]], strict=True))
        for g in generations
    }
    for turn in range(3):
        for g in generations:
            single[g] = least_squares(lambda v, g=g: residuals[g]({**common, **v}), _COLLECTIVE_GENERATION, single[g])  # type: ignore[misc]
        if turn < 2:
            common = least_squares(
                lambda v: np.concatenate([residuals[g]({**single[g], **v}) for g in generations]), collective.GLOBAL, common
            )
    out = {f"collective.{p}": v for p, v in common.items()}
    for g, values in single.items():
        out |= {f"collective.{p}.{g}": values[p] for p in ("start", "hop")}
        out |= {f"collective.{p}.{kind[g]}.{g}": values[p] for p in ("efficiency", "chunk")}
    out |= {f"collective.{p}.any": v for p, v in geometric_mean(single.values(), ("start", "hop")).items()}
    for name in set(kind.values()):
        mean = geometric_mean([single[g] for g in generations if kind[g] == name], ("efficiency", "chunk"))
        out |= {f"collective.{p}.{name}.any": v for p, v in mean.items()}
    return out


def _collective_residual(rows: Sequence[KernelQuery], generation: str, kind: str) -> Callable[[Values], Floats]:
    parts = []
    groups: dict[tuple[str, str, bool, bool], list[KernelQuery]] = defaultdict(list)
    for q in rows:
        groups[q.sheet.id, q.op, q.dtype == "int8", q.switch is False].append(q)
    for (_, op, integer, ring), members in groups.items():
        sheet = members[0].sheet
        size, group = _columns(members, ("bytes", "group"))
        measured = np.log([q.measured_s for q in members])
        more = {
            "peer_to_peer": sheet.peer_to_peer,
            "memory_bytes_per_s": (sheet.memory_gb_per_s or 1000.0) * 1e9,
            "reducible": not (integer or ring),
        }
        parts.append((op, size, group, members[0].tiers, more, measured))

    def residual(v: Values) -> Floats:
        kinds = {name: (v["efficiency"], v["chunk"]) if name == kind else both for name, both in collective.KINDS.items()}
        p = collective.CollectiveParameters(v, kinds, generation in collective.SWITCH_REDUCES)
        return np.concatenate(
            [np.log(collective.seconds(p, op, size, group, tiers, **more)) - measured for op, size, group, tiers, more, measured in parts]
        )

    return residual


def fit_kernels(queries: Sequence[KernelQuery]) -> Values:
    """Return all kernel parameters by name, fitted on ``queries`` alone."""
    by_kind: dict[str, list[KernelQuery]] = defaultdict(list)
    for query in queries:
        by_kind[query.kind].append(query)
    return {**fit_gemm(by_kind["gemm"]), **fit_attention(by_kind["attention"]), **fit_collective(by_kind["collective"])}
