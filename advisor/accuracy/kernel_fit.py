"""Fit the parameters of the kernel curves on published kernel measurements.

One robust least squares of log(predicted / measured) for each generation (and library class), with the parameters that are shared
between generations fitted in turns; priors hold what the rows do not determine. A generation with fewer than ``ENOUGH`` rows of a
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
from advisor.cost.kernels import attention, gemm
from advisor.cost.kernels.generation import KernelParameter, generation_of
from advisor.hardware.records import HardwareProfile

Floats = npt.NDArray[np.float64]
Values = dict[str, float]
Residual = Callable[[Values], Floats]
#: Rows that determine all parameters of a generation; below, only its ceiling is fitted.
ENOUGH = 100
#: Rows of one generation and class beyond which a fit is thinned.
_MOST = 1000
#: Rows of one generation and class beyond which a fit is thinned.
_MOST = 1000
_TURNS = 3
#: Scale of the robust loss: errors beyond about 3 % count linearly, so the fit follows the median shape.
_ROBUST = 0.03
#: Weight of a prior beside the rows: one prior standard deviation (a factor e) counts like an error of 5 % in one row.
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


def columns(queries: Sequence[KernelQuery], names: Sequence[str]) -> Floats:
    return np.array([[q.sizes[n] for q in queries] for n in names], dtype=np.float64)


def by_sheet(queries: Iterable[KernelQuery]) -> dict[str, list[KernelQuery]]:
    groups: dict[str, list[KernelQuery]] = defaultdict(list)
    for query in queries:
        groups[f"{query.sheet.id}/{query.dtype}/{query.op}"].append(query)
    return groups


def fit_gemm(queries: Sequence[KernelQuery]) -> Values:
    """Return ``gemm.<name>.<class>.<generation>``, ``….any`` and ``gemm.<name>.<class>`` from the GEMM queries."""
    out: Values = {}
    for name in gemm.CLASSES:
        mine = [q for q in queries if gemm.dtype_class(q.dtype) == name and _native(q)]
        out |= _fit_gemm_class(name, generations(mine))
    return out


def _fit_gemm_class(name: str, generations: Mapping[str, Sequence[KernelQuery]]) -> Values:
    residuals = {g: _gemm_residual(_thinned(rows), name) for g, rows in generations.items()}
    rich = [g for g in sorted(generations) if len(generations[g]) >= ENOUGH]
    if not rich:
        return {}
    common, single = alternate({g: residuals[g] for g in rich}, gemm.PER_GENERATION, gemm.PER_CLASS, every=3)
    mean = geometric_mean(single.values(), [p.name for p in gemm.PER_GENERATION])
    ceiling = [p for p in gemm.PER_GENERATION if p.name == "ceiling"]
    for g in sorted(set(generations) - set(rich)):
        residual = residuals[g]

        def held(v: Values, residual: Residual = residual) -> Floats:
            return residual({**common, **mean, **v})

        single[g] = mean | least_squares(held, ceiling, mean)
    out = {f"gemm.{p}.{name}.{g}": v for g, values in {**single, "any": mean}.items() for p, v in values.items()}
    return out | {f"gemm.{p}.{name}": v for p, v in common.items()}


def alternate(
    residuals: Mapping[str, Residual],
    own: Sequence[KernelParameter],
    common: Sequence[KernelParameter],
    start: Mapping[str, Values] | None = None,
    *,
    every: int = 1,
) -> tuple[Values, dict[str, Values]]:
    """Fit ``own`` of each group and ``common`` of all in turns; the common ones on every ``every``-th row. Return both."""
    shared = {p.name: p.prior for p in common}
    single = {g: dict(start[g]) if start else {p.name: p.prior for p in own} for g in residuals}
    for turn in range(_TURNS):
        for g, residual in residuals.items():

            def alone(v: Values, residual: Residual = residual, held: Values = shared) -> Floats:
                return residual({**held, **v})

            single[g] = least_squares(alone, own, single[g])
        if turn < _TURNS - 1:

            def together(v: Values, held: dict[str, Values] = single) -> Floats:
                return np.concatenate([residual({**held[g], **v})[::every] for g, residual in residuals.items()])

            shared = least_squares(together, common, shared)
    return shared, single


def _thinned(rows: Sequence[KernelQuery]) -> Sequence[KernelQuery]:
    """Return every n-th row so that at most about ``_MOST`` remain: more shapes of one kind no longer move the fit, but slow it."""
    return rows[:: -(-len(rows) // _MOST)]


def _native(query: KernelQuery) -> bool:
    dtype = query.dtype.partition("_")[0]
    return dtype in query.sheet.dense_tflops or dtype in ("bf16", "fp16")


def generations(queries: Iterable[KernelQuery]) -> dict[str, list[KernelQuery]]:
    groups: dict[str, list[KernelQuery]] = defaultdict(list)
    for query in queries:
        groups[generation_of(query.sheet)].append(query)
    return groups


def device_numbers(sheet: HardwareProfile, dtype: str) -> dict[str, Any]:
    """Return peak, bandwidth, units and last cache of a sheet in SI units, with the priors of ``curves_for`` where it is silent."""
    return {
        "peak": peak_of({d: v * 1e12 for d, v in sheet.dense_tflops.items()}, dtype),
        "bandwidth": (sheet.memory_gb_per_s or 1000.0) * 1e9,
        "units": sheet.compute_units or 80,
        "l2": (sheet.l2_mib or 40.0) * 2**20,
    }


def _gemm_residual(rows: Sequence[KernelQuery], name: str) -> Callable[[Values], Floats]:
    parts = []
    for members in by_sheet(rows).values():
        first = members[0]
        numbers = device_numbers(first.sheet, first.dtype)
        measured = np.log([q.measured_s for q in members])
        parts.append((columns(members, ("m", "n", "k")), gemm.element_bytes(first.dtype), numbers, measured))

    def residual(v: Values) -> Floats:
        return np.concatenate(
            [np.log(gemm.formula(v, sizes, name, element, **numbers)) - measured for sizes, element, numbers, measured in parts]
        )

    return residual


def fit_attention(queries: Sequence[KernelQuery]) -> Values:
    """Return ``attention.<name>.<generation>`` and ``….any``; heads wider than 256 run another kernel and are left out."""
    out: Values = {}
    fitted: dict[str, Values] = {}
    for generation, rows in sorted(generations(q for q in queries if q.sizes["head_dim"] <= 256).items()):
        if len(rows) < ENOUGH:
            continue
        wide = [q for q in rows if q.sizes["query"] > 1]
        single = [q for q in rows if q.sizes["query"] == 1]
        values: Values = {p.name: p.prior for p in attention.PARAMETERS}
        for members, declared in ((single, attention.DECODE), (wide, attention.PREFILL)):
            if len(members) < ENOUGH:
                continue
            residual, base = _attention_residual(members), dict(values)

            def held(v: Values, residual: Residual = residual, base: Values = base) -> Floats:
                return residual({**base, **v})

            values |= least_squares(held, declared, values)
        fitted[generation] = values
    if fitted:
        fitted["any"] = geometric_mean(fitted.values(), [p.name for p in attention.PARAMETERS])
    for generation, values in fitted.items():
        out |= {f"attention.{p}.{generation}": v for p, v in values.items()}
    return out


def _attention_residual(rows: Sequence[KernelQuery]) -> Callable[[Values], Floats]:
    parts = []
    for members in by_sheet(rows).values():
        numbers = device_numbers(members[0].sheet, members[0].dtype)
        del numbers["l2"]
        names = ("batch", "heads", "kv_heads", "query", "keys", "head_dim")
        parts.append(
            (dict(zip(names, columns(members, names), strict=True)), numbers, members[0].dtype, np.log([q.measured_s for q in members]))
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
