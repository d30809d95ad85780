"""How devices and batches can be dealt out: divisors of heads, layers and experts, and the batches of an open question."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from advisor.frameworks import Capability
from advisor.plan.legal import Context
from advisor.plan.records import Workload

#: Batches tried when the question leaves the batch open: doubling, so that the knee is found within a factor of two.
_OPEN_BATCHES = tuple(2**i for i in range(13))
#: Accumulations tried then, as multiples of the pipeline stages.
_OPEN_STEPS = (1, 2, 4, 8, 16, 32)
#: Tokens of a training step above which no open batch goes: the largest stage of Llama 3 405B (16 M; GPT-3 175B took 3.2 M, 13B 2 M).
#: A larger batch buys throughput with samples that the training then needs more of.
_MOST_STEP_TOKENS = 1 << 24
#: How many open batches are tried: all, few (for an answer beside the answer), or the least (does it fit at all).
Grid = Literal["full", "coarse", "least"]
#: Micro-batches above this are never faster: every device is saturated long before (published sweeps end at 64).
_MICRO_BATCH_LIMIT = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """One way to deal the devices out."""

    dp: int
    tp: int
    pp: int
    vpp: int
    cp: int
    ep: int


def divisors(number: int, limit: int | None = None) -> list[int]:
    """Return the divisors of ``number`` in ascending order, up to ``limit``."""
    top = number if limit is None else min(number, limit)
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted(d for d in {*small, *(number // d for d in small)} if d <= top)


def degrees(context: Context, can: Capability, devices: int, pinned: Mapping[str, Any]) -> Iterator[Degrees]:
    """Yield the ways to deal ``devices`` out that the model's structure allows."""
    t = context.model.transformer
    tps = divisors(t.heads, devices) if t is not None and can.tensor_parallel else [1]
    pps = divisors(t.layers, devices) if t is not None and can.pipeline_parallel else [1]
    seq = context.workload.seq_len
    cps = [c for c in divisors(devices, 64) if c == 1 or (can.context_parallel and seq // c >= 1024)] if t is not None else [1]
    for tp, pp, cp in itertools.product(pin(tps, pinned, "tp"), pin(pps, pinned, "pp"), pin(cps, pinned, "cp")):
        if devices % (tp * pp * cp):
            continue
        dp = devices // (tp * pp * cp)
        if (dp > 1 and not can.data_parallel) or pinned.get("dp", dp) != dp:
            continue
        vpps = divisors(t.layers // pp, 16) if t is not None and pp > 1 and can.interleaved_pipeline else [1]
        eps = divisors(t.experts) if t is not None and can.expert_parallel and t.experts > 1 else [1]
        for vpp, ep in itertools.product(pin(vpps, pinned, "vpp"), pin(eps, pinned, "ep")):
            if (dp * cp * tp) % ep == 0:
                yield Degrees(dp=dp, tp=tp, pp=pp, vpp=vpp, cp=cp, ep=ep)


def batches(workload: Workload, d: Degrees, pinned: Mapping[str, Any], grid: Grid = "full") -> list[tuple[int, int, int]]:
    """Return the (micro_batch, grad_accumulation, global_batch) triples for a degree assignment.

    A stated global batch is split exactly. An open one is swept: for training micro-batch and accumulation over powers of
    two, for inference the batch of one replica.
    """
    total = pinned.get("global_batch", workload.global_batch)
    triples: Iterable[tuple[int, int, int]]
    if total is not None:
        if total % d.dp:
            return []
        share = total // d.dp
        micro = divisors(share, _MICRO_BATCH_LIMIT if workload.is_training else None)
        if not workload.is_training:
            micro = [share]
        triples = [(m, share // m, total) for m in micro]
    elif workload.is_training:
        micros, steps = {"full": (_OPEN_BATCHES[:8], _OPEN_STEPS), "coarse": ((1, 2, 4, 8), (1, 4, 16)), "least": ((1,), (1,))}[grid]
        every = [(m, d.pp * s, m * d.pp * s * d.dp) for m in micros for s in steps]
        triples = [t for t in every if t[2] * workload.seq_len <= _MOST_STEP_TOKENS] or every[:1]
    else:
        per_replica = {"full": _OPEN_BATCHES, "coarse": _OPEN_BATCHES[::2], "least": _OPEN_BATCHES[:1]}[grid]
        triples = [(m, 1, m * d.dp) for m in per_replica]
    keep = [t for t in triples if pinned.get("micro_batch", t[0]) == t[0] and pinned.get("grad_accumulation", t[1]) == t[1]]
    if not keep and "micro_batch" in pinned and total is None:
        m, a = pinned["micro_batch"], pinned.get("grad_accumulation", d.pp)
        keep = [(m, a, m * a * d.dp)]
    return keep


def pin(values: Sequence[Any], pinned: Mapping[str, Any], key: str) -> Sequence[Any]:
    return [v for v in values if v == pinned[key]] if key in pinned else values
