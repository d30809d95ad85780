"""Samples a second of a training step at the largest batch that fits one budget of memory: plain fp32, or autocast with checkpointing.

What a step keeps for the backward pass is counted on the saved tensors themselves (each storage once, parameters not), for one sample and
for two, which gives the bytes a sample; with checkpointing that is the inputs of the layers. The batch is what the budget holds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from advisor.claims.children._answer import answer
from advisor.claims.children._timing import seconds

LAYERS, WIDTH, HEADS, SEQ = 4, 128, 4, 64
#: Largest batch that is timed: beyond it a CPU's throughput no longer changes with the batch.
MOST = 64


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return samples a second of ``mode`` (plain, amp-checkpoint) within ``budget_mib``."""
    import torch

    torch.manual_seed(int(arguments["seed"]))
    torch.set_num_threads(int(arguments["threads"]))
    lean = arguments["mode"] == "amp-checkpoint"
    model = torch.nn.ModuleList(
        torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True) for _ in range(LAYERS)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    budget = float(arguments["budget_mib"]) * 2**20
    one, two = (kept_bytes(torch, model, optimizer, batch, lean) for batch in (1, 2))
    each = max(two - one, 1)
    batch = max(1, min(MOST, int((budget - max(one - each, 0)) / each)))
    x = torch.randn(batch, SEQ, WIDTH)
    taken = seconds(
        lambda: step(torch, model, optimizer, x, lean), threads=int(arguments["threads"]), budget_s=float(arguments.get("budget_s") or 4.0)
    )
    detail = {"batch": batch, "kept_bytes_a_sample": each, "budget_bytes": budget}
    return [{"label": f"{LAYERS} layers of {WIDTH} in {arguments['budget_mib']} MiB", "value": batch / taken, "detail": detail}]


def step(torch: Any, model: Any, optimizer: Any, x: Any, lean: bool) -> None:
    """Do one training step, in bf16 autocast with every layer recomputed where ``lean``."""
    from torch.utils.checkpoint import checkpoint

    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16) if lean else contextlib.nullcontext():
        y = x
        for layer in model:
            y = checkpoint(layer, y, use_reentrant=False) if lean else layer(y)
    y.float().square().mean().backward()
    optimizer.step()


def kept_bytes(torch: Any, model: Any, optimizer: Any, batch: int, lean: bool) -> int:
    """Return the bytes that the forward pass of ``batch`` samples saves for the backward pass."""
    if lean:
        # Recomputation saves inside the backward pass, one layer at a time; what is kept across the forward pass is each layer's input.
        return batch * SEQ * WIDTH * 4 * LAYERS
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    x = torch.randn(batch, SEQ, WIDTH, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        step(torch, model, optimizer, x, lean)
    return sum(kept.values())


if __name__ == "__main__":
    answer(measure)
