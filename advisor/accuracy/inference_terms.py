"""Terms of published inference rows, computed once: kernels at their curves, to which an engine's parameters are then applied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from advisor.accuracy.inference_queries import InferenceQuery
from advisor.cost.calibration import Calibration
from advisor.cost.curves import curves_for
from advisor.cost.engines import Engine
from advisor.cost.inference_memory import kv_cache_bytes, weight_bytes
from advisor.cost.inference_terms import Terms, compose, numbers_of, terms_of
from advisor.units import GIB

Floats = npt.NDArray[np.float64]

#: Share of a device's memory that engines give to weights and cache (vLLM gpu_memory_utilization 0.9, TensorRT-LLM 0.9 of the free).
_ENGINE_SHARE = 0.9
#: Context, workspace and activations of an engine beside weights and cache.
_ENGINE_BYTES = 2.0 * GIB
#: Sequences in flight at maximal load: default of trtllm-bench and vLLM's largest captured batch.
_MOST_SEQUENCES = 2048.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows of one stratum with their terms; ``queue`` is how many times the batch exceeds what the cache holds, at least 1."""

    queries: tuple[InferenceQuery, ...]
    generation: str
    evidence: str
    terms: Terms
    queue: Floats
    batch: Floats
    measured: Floats

    def seconds(self, engine: Engine) -> Floats:
        """Return the predicted latency of each row's batch."""
        total: Floats = sum(compose(self.terms, engine).values(), start=np.zeros(len(self.queries)))
        return total * self.queue


def prepare(queries: Sequence[InferenceQuery], calibration: Calibration) -> list[Prepared]:
    """Return the terms of all rows, grouped so that each group is one vectorised call."""
    groups: dict[tuple[str, ...], list[InferenceQuery]] = defaultdict(list)
    for query in queries:
        groups[query.stratum].append(query)
    return [_prepare(members, calibration) for members in groups.values()]


def _prepare(members: Sequence[InferenceQuery], calibration: Calibration) -> Prepared:
    first = members[0]
    curves = curves_for(first.platform, first.engine, calibration)
    numbers = numbers_of(first.precision, first.quantization)
    tp, pp, prompt, output = (np.array([float(getattr(q, name)) for q in members]) for name in ("tp", "pp", "prompt", "output"))
    room = _capacity(members, tp, pp, prompt + output)
    batch = np.array([q.batch if q.batch is not None else np.nan for q in members])
    batch = np.where(np.isnan(batch), np.clip(np.floor(room), 1.0, _MOST_SEQUENCES), batch)
    held = np.minimum(batch, np.maximum(room, 1.0)) if first.queues else batch
    chunk = None if first.chunk is None else np.array([q.chunk or 1.0 for q in members])
    terms = terms_of(first.model, curves, first.platform, numbers, batch=held, tp=tp, pp=pp, prompt=prompt, output=output, chunk=chunk)
    if not first.cached:
        # Every token recomputes the whole sequence: as many passes as tokens, each at the mean length.
        mean = prompt + (output + 1.0) / 2.0
        terms = terms_of(first.model, curves, first.platform, numbers, batch=held, tp=tp, pp=pp, prompt=mean, output=0.0)
        terms = replace(terms, prompts=np.maximum(output, 1.0))
    measured = np.array([_measured(q, b) for q, b in zip(members, batch, strict=True)])
    return Prepared(tuple(members), curves.generation, curves.evidence, terms, batch / held, batch, measured)


def _measured(query: InferenceQuery, batch: float) -> float:
    if query.measured_s is not None:
        return query.measured_s
    return query.output * batch / query.rate if query.rate else np.nan


def _capacity(members: Sequence[InferenceQuery], tp: Floats, pp: Floats, tokens: Floats) -> Floats:
    """Return how many sequences' caches fit beside the weights."""
    first = members[0]
    memory = float(first.platform.memory_bytes or 80 * GIB)
    numbers = numbers_of(first.precision, first.quantization)
    weights = weight_bytes(first.model, np.asarray(2.0), np.asarray(numbers.weight_bytes)) / (tp * pp)
    # An 8-bit cache comes with 8- and 4-bit models in the vendors' tables.
    element = np.full(tp.shape, 2.0 if first.quantization == "none" else 1.0)
    one = kv_cache_bytes(first.model, np.ones_like(tp), tokens, element, tp, pp)
    free = np.maximum(memory * _ENGINE_SHARE - weights - _ENGINE_BYTES, 0.0)
    room: Floats = free / np.maximum(one, 1.0)
    return room
