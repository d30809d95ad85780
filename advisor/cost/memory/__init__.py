"""Memory of a training step, term by term, for the first and the last pipeline stage; the larger one is reported.

``allocated`` is what the framework's tensors take at the peak, ``reserved`` adds what its caching allocator holds beyond that, and the
device shows the context and the communicators' buffers on top. Published numbers use all three definitions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.memory.states import states
from advisor.cost.pipeline import in_flight
from advisor.cost.terms import Terms

Floats = npt.NDArray[np.float64]

#: Parts that are not tensors: what the allocator holds in reserve, and what lies outside it.
OUTSIDE = ("allocator_reserve", "context", "communicators")


#: Share of the allocated bytes that fragmentation costs even when memory is short.
TIGHT_RESERVE = 0.06


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes per device by part, float64[n]; they add up to ``device``."""

    parts: dict[str, Floats]

    @property
    def device(self) -> Floats:
        """What the device's own tool shows."""
        return sum(self.parts.values(), start=np.zeros(1))

    @property
    def reserved(self) -> Floats:
        """What the framework's allocator has taken from the device."""
        return self.device - self.parts["context"] - self.parts["communicators"]

    @property
    def allocated(self) -> Floats:
        """What tensors take at the peak."""
        return self.reserved - self.parts["allocator_reserve"]


def memory(t: Terms, k: Calibration) -> Memory:
    """Return the memory of each plan's fullest device."""
    first, last = _stage(t, k, first=True), _stage(t, k, first=False)
    fuller = sum(last.values(), start=np.zeros(len(t))) > sum(first.values(), start=np.zeros(len(t)))
    parts = {name: np.where(fuller & (t.pp > 1), last[name], first[name]) for name in first}
    allocated = sum(parts.values(), start=np.zeros(len(t)))
    groups = (t.tp > 1) * 1.0 + (t.cp > 1) + (t.dp > 1) + (t.pp > 1) + (t.ep > 1)
    parts["context"] = t.on_gpu * k["memory.context_bytes"]
    parts["communicators"] = groups * k["memory.channel_bytes"]
    # The caching allocator returns what it holds in reserve before a run fails: the reserve shrinks to what fragmentation needs.
    room = np.maximum(t.memory_limit - allocated - parts["context"] - parts["communicators"], TIGHT_RESERVE * allocated)
    parts["allocator_reserve"] = np.minimum(allocated * k["memory.reserved"], room)
    return Memory(parts)


def _stage(t: Terms, k: Calibration, *, first: bool) -> dict[str, Floats]:
    """Return the tensors of the first stage (of the only one under pp = 1, head included) or of the last."""
    alone = t.pp == 1
    layers = np.where(alone, t.layers, t.layers_most if first else t.layers_last)
    edge = np.where(alone, t.embedding_params + t.head_params, t.embedding_params if first else t.head_params)
    params = layers * t.layer_params + edge
    held = in_flight(t.pp, t.vpp, t.grad_accumulation) if first else np.minimum(np.where(t.vpp > 1, t.pp, 1.0), t.grad_accumulation)
    kept_edges = np.where(alone, t.kept_embedding + t.kept_head, t.kept_embedding if first else t.kept_head)
    parts = states(t, params)
    parts["activations"] = held * (layers * t.kept_plan + kept_edges)
    # Backward of one layer: its whole working set again under recomputation, and gradients of what it kept.
    working = t.kept_layer * (k["memory.transient"] + np.where(t.kept_plan < t.kept_layer, 1.0, 0.0))
    logits = t.logits * t.logit_kept_bytes * np.where(alone | (not first), 1.0, 0.0)
    # The two peaks do not fall together: logits are gone when the first layer runs backward.
    parts["logits"] = logits
    parts["working_set"] = np.maximum(working - logits, 0.0)
    # Buckets hold gradients: of what is trained.
    trained = np.where(t.adapter > 0, t.trained_params, params)
    buckets = np.where((t.dp > 1) & (t.bucket_bytes > 0), np.minimum(t.bucket_bytes, 4.0 * trained), k["memory.buffers"] * trained)
    # Fully sharded training keeps one bucket of gradients in 16 bits where the framework fixes its size (DeepSpeed), else none.
    one = np.where(t.dp > 1, np.minimum(0.5 * t.bucket_bytes, t.weight_bytes * params), 0.0)
    parts["communication_buffers"] = np.where((t.sharded_weights > 0) & (t.shard_degree > 1), one, buckets)
    parts["workspace"] = np.full(len(t), k["memory.workspace_bytes"])
    return parts
