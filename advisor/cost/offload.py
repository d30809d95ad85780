"""Training states on the host: what crosses the host link in every micro-batch, and the optimizer step on the host's cores.

Each rank moves its own shard. Weights that live on the host are fetched for each pass, beside the work of the pass before (DeepSpeed
``stage3_prefetch_bucket_size``; PyTorch ``CPUOffload``). Gradients go to the host in every micro-batch; from the second on the running
sum is read back, added to on the device and written again (DeepSpeed ``partition_grads`` in ``runtime/zero/stage3.py`` and
``async_accumulate_grad_in_cpu_via_gpu`` in ``stage_1_and_2.py``): ``2 m - 1`` transfers over ``m`` micro-batches. Copies run on engines of
their own, so what fits beside a pass costs nothing.

After the last micro-batch the sums cross once more in fp32 (``_offload_grad_partition_at_boundary``), the host updates the parameters of
all ranks of its node, and the new 16-bit weights return unless they stay on the host.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.cost.terms import Terms

Floats = npt.NDArray[np.float64]


def exposed(t: Terms, forward: Floats, backward: Floats) -> tuple[Floats, Floats]:
    """Return seconds that the host link adds to a micro-batch of all layers, forward and backward, beside so many seconds of work."""
    shard = np.where(t.sharded_weights > 0, np.maximum(t.shard_degree, 1.0), 1.0)
    fetch = t.offload_params * t.layer_params * t.layers * t.weight_bytes / shard / t.host_link
    transfers = 2.0 - 1.0 / np.maximum(t.grad_accumulation, 1.0)
    sums = t.offload_optimizer * transfers * _own(t) * t.gradient_bytes / t.host_link
    return np.maximum(fetch - forward, 0.0), np.maximum(fetch + sums - backward, 0.0)


def step_seconds(t: Terms) -> Floats:
    """Return seconds of an optimizer step on the host: fp32 sums out, the update by all cores of the node, 16-bit weights back."""
    mine = _own(t)
    crossing = mine * (4.0 + t.weight_bytes * (1.0 - t.offload_params)) / t.host_link
    return np.asarray(crossing + mine * (t.devices / t.nodes) * t.host_update_s, dtype=np.float64)


def _own(t: Terms) -> Floats:
    """Return the parameters whose gradient and state a rank owns."""
    shard = np.where(t.sharded_states > 0, np.maximum(t.shard_degree, 1.0), 1.0)
    return np.asarray(t.trained_params / shard, dtype=np.float64)
