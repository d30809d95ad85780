"""Parameters of the fullest stage over those of the whole model, for stages in processes of their own that together give its output.

Each stage builds only its own layers; activations go from process to process through gloo. The last stage's output must be that of
the whole model, which is built apart for the comparison.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from advisor.claims.children._answer import answer

LAYERS, WIDTH, BATCH = 8, 256, 16
LIMIT_S = 90


def layers(first: int, last: int, seed: int) -> Any:
    """Return layers ``first`` to ``last`` (not included), each with weights of its own seed."""
    import torch

    made = []
    for index in range(first, last):
        torch.manual_seed(seed + index)
        made += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()]
    return torch.nn.Sequential(*made)


def inputs(seed: int) -> Any:
    """Return the batch."""
    import torch

    torch.manual_seed(seed - 1)
    return torch.randn(BATCH, WIDTH)


def stage(rank: int, stages: int, seed: int, folder: str) -> None:
    """Be one stage: receive, compute, send; write the bytes held, and at the end the output."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=stages)
    each = LAYERS // stages
    part = layers(rank * each, (rank + 1) * each, seed)
    x = torch.empty(BATCH, WIDTH)
    if rank:
        dist.recv(x, rank - 1)
    else:
        x = inputs(seed)
    with torch.no_grad():
        y = part(x)
    if rank + 1 < stages:
        dist.send(y, rank + 1)
    torch.save({"bytes": sum(p.numel() * p.element_size() for p in part.parameters()), "output": y}, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Run two stages and compare."""
    import torch

    stages, seed = int(arguments.get("stages") or 2), int(arguments["seed"]) + 1
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with tempfile.TemporaryDirectory() as folder:
        commands = [[sys.executable, "-m", __spec__.name, str(rank), str(stages), str(seed), folder] for rank in range(stages)]
        running = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) for command in commands]
        codes = [process.wait(timeout=LIMIT_S) for process in running]
        if any(codes):
            raise RuntimeError(f"a stage ended with exit status {max(codes)}")
        parts = [torch.load(f"{folder}/{rank}.pt") for rank in range(stages)]
    whole = layers(0, LAYERS, seed)
    with torch.no_grad():
        error = float((whole(inputs(seed)) - parts[-1]["output"]).abs().max())
    if error > 1e-5:
        raise RuntimeError(f"the stages' output differs from the whole model's by {error:.2g}")
    total = sum(p.numel() * p.element_size() for p in whole.parameters())
    detail = {"stage_bytes": [part["bytes"] for part in parts], "whole_bytes": total, "max_error": error}
    return [{"label": f"{stages} processes", "value": max(part["bytes"] for part in parts) / total, "detail": detail}]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        stage(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        answer(measure)
