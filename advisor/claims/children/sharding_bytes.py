"""Bytes that FSDP2 hands to collectives in one training step, over those of ZeRO-3's schedule.

The collectives are counted in a process group that moves nothing (torch's fake group), at the dispatcher, so the count is FSDP2's own.
ZeRO-3 gathers every parameter for the forward and again for the backward pass and reduces every gradient once: three times the
parameters (Rajbhandari et al. 2020, section 7), each gather or reduction counted by its whole tensor on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.claims.children._answer import answer

GATHERS, REDUCTIONS = ("allgather", "all_gather"), ("reduce_scatter",)


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the ratio with parameters freed after the forward pass (as ZeRO-3 does) and with parameters kept."""
    rows = []
    for label, reshard in (("parameters freed after the forward pass", True), ("parameters kept for the backward pass", False)):
        counted, parameters = _count(reshard, int(arguments.get("layers") or 8), int(arguments.get("width") or 64))
        ours, theirs = sum(counted.values()), 3 * parameters
        rows.append({"label": label, "value": ours / theirs, "detail": {**counted, "zero3_bytes": theirs}})
    return rows


def _count(reshard: bool, layers: int, width: int) -> tuple[dict[str, int], int]:
    """Return bytes by kind of collective in one step, and bytes of all parameters."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from torch.utils._python_dispatch import TorchDispatchMode

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        mesh = init_device_mesh("cpu", (2,))
        model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
        parameters = sum(p.numel() * p.element_size() for p in model.parameters())
        for layer in model:
            fully_shard(layer, mesh=mesh, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, reshard_after_forward=reshard)
        counted = {"gathered_bytes": 0, "reduced_bytes": 0}

        class Count(TorchDispatchMode):
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                name = str(function)
                if name.startswith(("c10d.", "_c10d_functional.")):
                    whole = max((_bytes(item) for item in _tensors(args)), default=0)
                    if any(word in name for word in REDUCTIONS):
                        counted["reduced_bytes"] += whole
                    elif any(word in name for word in GATHERS):
                        counted["gathered_bytes"] += whole
                return function(*args, **(kwargs or {}))

        with Count():
            model(torch.randn(4, width)).square().mean().backward()
        return counted, parameters
    finally:
        dist.destroy_process_group()


def _tensors(value: Any) -> list[Any]:
    """Return the tensors in nested arguments."""
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return [value] if hasattr(value, "element_size") else []


def _bytes(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())


if __name__ == "__main__":
    answer(measure)
