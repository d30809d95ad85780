"""Model states: weights, gradients and optimizer states of the heaviest stages, and the buffers that gathering needs.

Mixed-precision Adam keeps 16 bytes a parameter: 2 weight, 2 gradient, 12 optimizer (fp32 copy and two moments), or the same 16 as
fp32 weight, gradient and moments (Rajbhandari et al., ZeRO, SC'20, section 3.1); gradients accumulated in fp32 make it 18.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.cost.terms import Terms

Floats = npt.NDArray[np.float64]


def states(t: Terms, params: Floats) -> dict[str, Floats]:
    """Return bytes of ``weights``, ``gradients``, ``optimizer_states`` and ``gather_buffers`` for a stage of ``params`` parameters."""
    shard = np.maximum(t.shard_degree, 1.0)
    whole_weights = np.where(t.sharded_weights > 0, shard, 1.0)
    kept = t.gathers_once * (t.pp > 1) * t.sharded_weights
    stored = np.where(t.full_precision > 0, 4.0, t.stored_weight_bytes)
    stored = np.where(t.adapter > 0, t.frozen_bytes, stored)
    trained = np.where(t.adapter > 0, t.trained_params, params)
    gradient = (
        np.where(t.full_precision > 0, 4.0, t.gradient_bytes) * trained / np.where((t.sharded_gradients > 0) & (kept == 0), shard, 1.0)
    )
    # Gradients that are sharded are freed as they are reduced: no whole 16-bit copy stays beside the sums. Where the optimizer lives on
    # the host the sums a rank owns do too (DeepSpeed, runtime/zero/stage3.py: partition_grads; PyTorch FSDP with CPUOffload).
    freed = (t.sharded_gradients > 0) & (kept == 0)
    owned = np.where(freed, 1.0, 1.0 / np.where(t.sharded_states > 0, shard, 1.0))
    gradient = gradient * (1.0 - t.offload_optimizer * owned)
    gradient = gradient + np.where(freed & (shard > 1), 0.0, t.working_gradient_bytes) * trained
    master = np.where(t.full_precision > 0, 0.0, t.master_bytes)
    moments = np.where(t.optimizer_8bit > 0, 2.0, 8.0)
    optimizer = (master + moments) * trained / np.where(t.sharded_states > 0, shard, 1.0)
    edges = t.embedding_params + t.head_params
    # Fully sharded: the layer at work and the one fetched ahead, and the root's own tables, whole and in working precision.
    gathered = np.where(t.sharded_weights > 0, (2.0 * t.layer_params + edges) * t.weight_bytes + t.layer_params * t.gradient_bytes, 0.0)
    gathered = np.where(shard > 1, gathered, np.where((t.sharded_weights > 0) & (stored > t.weight_bytes), gathered, 0.0))
    gathered = np.where(kept > 0, t.weight_bytes * params, gathered)
    on_device = 1.0 - t.offload_params
    return {
        "weights": stored * params / whole_weights * on_device,
        "gradients": gradient,
        "optimizer_states": optimizer * (1.0 - t.offload_optimizer),
        # Of weights on the host, a rank fetches its own share of two layers before they are gathered.
        "gather_buffers": gathered + t.offload_params * 2.0 * t.layer_params * t.weight_bytes / whole_weights,
    }
