"""FLOPs of a training step that any implementation must do: the numerator of MFU."""

from __future__ import annotations

from advisor.model.counts import operator_flops, operators
from advisor.model.records import Attention, Model


def step_flops(
    model: Model, seq: int, adapter: bool = False, adapter_parameters: float = 0.0, *, causal: bool = False, recompute: bool = False
) -> float:
    """Return FLOPs of one sample's forward and backward pass: attention over all pairs unless ``causal``, and once more forward with
    ``recompute``.

    Backward is twice the forward (Chowdhery et al. 2022, appendix B). Under an adapter the weights are frozen: their products need the
    gradient of the input alone, so they cost 4 FLOPs a parameter and token, and the ``adapter_parameters`` cost 6 (Hu et al. 2021).
    """
    total = 0.0
    for block, op in operators(model):
        passes = 2.0 if adapter and not isinstance(op, Attention) else 3.0
        total += (passes + recompute) * block.repeat * operator_flops(block, op, seq, seq, causal=causal)
    return total + (6.0 * adapter_parameters * seq if adapter else 0.0)
