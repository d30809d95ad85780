"""Mixture of experts and meshes of chips: what splitting them depends on, and what engines can express."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.search.advice._case import Case
from advisor.search.records import Reason
from advisor.units import format_bytes


def expert_advice(case: Case) -> Iterator[Reason]:
    """Yield what decides between splitting experts and splitting tensors, with the concurrency at which every expert is busy."""
    t = case.model.transformer
    if t is None or t.experts <= 1 or case.platform.devices == 1:
        return
    # A pass keeps every expert busy once tokens times choices outnumber the experts several times over: about 8 tokens an expert,
    # below which a product of one expert reads its weights for too few rows.
    busy = 8 * t.experts // max(t.experts_per_token, 1)
    sent = 2.0 * t.experts_per_token * t.hidden * 2.0
    text = (
        f"experts: below about {busy} tokens in flight tensor parallelism keeps every device at work on each token; above, expert "
        f"parallelism has the larger products and sends {format_bytes(sent)} a token and layer (2 · top-{t.experts_per_token} · "
        f"hidden · 2 B); "
        "balanced experts are assumed, measure your own imbalance. vLLM splits experts over all ranks or not at all, TensorRT-LLM takes "
        "moe_tp × moe_ep"
    )
    detail = {"crossover_tokens": busy, "all_to_all_bytes_per_token": sent, "imbalance": 1.0, "ep": case.plan.ep}
    yield Reason(code="EXPERTS", text=text, value=float(busy), detail=detail)


def torus_shape(chips: int, dims: int) -> tuple[int, ...]:
    """Return the most cubic shape of powers of two whose product is ``chips``, ascending: 128 chips in three dimensions are 4, 4, 8."""
    shape = [1] * dims
    rest = chips
    while rest % 2 == 0 and rest > 1:
        smallest = shape.index(min(shape))
        shape[smallest] *= 2
        rest //= 2
    shape[-1] *= rest
    return tuple(sorted(shape))


def mesh_advice(case: Case) -> Iterator[Reason]:
    """Yield the torus that a mesh must be made of, where the devices are chips of one."""
    system = case.platform.system
    if system is None or system.torus is None or case.platform.devices < 8:
        return
    shape = torus_shape(case.platform.devices, system.torus.dims)
    sizes = sorted({1} | set(shape) | {a * b for i, a in enumerate(shape) for b in shape[i + 1 :]} | {case.platform.devices})
    used = [d for d in (case.plan.dp, case.plan.tp, case.plan.pp, case.plan.cp) if d > 1]
    odd = [d for d in used if d not in sizes]
    text = (
        f"mesh: the slice is a torus of {'x'.join(map(str, shape))}; mesh axes that map onto whole dimensions are "
        f"{', '.join(map(str, sizes))}"
    )
    if odd:
        text += f"; {', '.join(map(str, odd))} splits a dimension (allow_split_physical_axes in jax.experimental.mesh_utils)"
    yield Reason(code="MESH", text=text, value="x".join(map(str, shape)), detail={"torus": list(shape), "axes": sizes, "split": odd})
