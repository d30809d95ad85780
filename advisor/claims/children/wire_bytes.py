"""Bytes that two processes really send each other in one training step, by FSDP2, DeepSpeed's ZeRO-3 or plain data parallelism.

Counted by the kernel: TCP_INFO of every socket of both processes, before and after some steps (``bytes_acked``, Linux 4.2 and later).
Gloo moves the tensors over loopback. The value is bytes a step over the bytes of the parameters, summed over both processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from advisor.claims.children._answer import Lacks, answer

RANKS, STEPS, WARM, BATCH = 2, 4, 2, 4
LIMIT_S = 150
#: Where ``struct tcp_info`` of Linux holds ``tcpi_bytes_acked``, and how much of it to ask for.
ACKED_AT, INFO_BYTES = 120, 192


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return bytes a step over parameter bytes for each of ``systems``: a label to fsdp2, fsdp2-kept, zero3 or ddp."""
    if not hasattr(socket, "TCP_INFO"):
        raise Lacks("the kernel does not tell how many bytes a socket sent (Linux does)")
    systems = dict(arguments["systems"])
    import torch  # noqa: F401 - a missing package is an answer

    if "zero3" in systems.values():
        import deepspeed  # noqa: F401
    shape = {"layers": int(arguments.get("layers") or 8), "width": int(arguments.get("width") or 256)}
    counted = {system: _counted(system, shape) for system in dict.fromkeys(systems.values())}
    return [{"label": label, **counted[system]} for label, system in systems.items()]


def _counted(system: str, shape: Mapping[str, int]) -> dict[str, Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(RANKS):
            variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "LOCAL_RANK": str(rank),
                         "WORLD_SIZE": str(RANKS), "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}  # fmt: skip
            told = json.dumps({**shape, "system": system, "out": f"{folder}/{rank}.json"})
            with Path(folder, f"{rank}.log").open("w") as log:
                command = [sys.executable, "-m", __spec__.name, told]
                ranks.append(subprocess.Popen(command, env={**os.environ, **variables}, stdout=log, stderr=log))
        try:
            codes = [process.wait(timeout=LIMIT_S) for process in ranks]
        finally:
            for process in ranks:
                process.kill()
        if any(codes):
            said = [line for rank in range(RANKS) for line in Path(folder, f"{rank}.log").read_text().splitlines() if "Error" in line]
            raise RuntimeError(f"{system}: a rank ended with exit status {max(codes, key=abs)}: {said[-1] if said else 'it said nothing'}")
        found = [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(RANKS)]
    sent, parameters = sum(item["sent_bytes"] for item in found) / STEPS, found[0]["parameter_bytes"]
    detail = {"system": system, "sent_bytes_a_step": sent, "parameter_bytes": parameters, "losses": found[0]["losses"]}
    return {"value": sent / parameters, "detail": detail}


def sent_bytes() -> int:
    """Return the bytes that were sent and acknowledged on all TCP sockets of this process."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as held:
            if held.family in (socket.AF_INET, socket.AF_INET6) and held.type == socket.SOCK_STREAM:
                info = held.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
                if len(info) >= ACKED_AT + 8:
                    total += struct.unpack_from("Q", info, ACKED_AT)[0]
    return total


def rank(told: Mapping[str, Any]) -> None:
    """Be one of the processes: train some steps and write what was sent in them."""
    import torch
    import torch.distributed as dist

    torch.manual_seed(1)
    layers, width = int(told["layers"]), int(told["width"])
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
    parameters = sum(p.numel() * p.element_size() for p in model.parameters())
    step = SYSTEMS[str(told["system"])](model)
    x = torch.randn(BATCH, width)
    losses = [step(x) for _ in range(WARM)]
    dist.barrier()
    before = sent_bytes()
    losses += [step(x) for _ in range(STEPS)]
    dist.barrier()
    document = {"sent_bytes": sent_bytes() - before, "parameter_bytes": parameters, "losses": losses}
    Path(told["out"]).write_text(json.dumps(document))
    dist.barrier()
    dist.destroy_process_group()


Step = Callable[[Any], float]


def _step(model: Any) -> Step:
    """Return an ordinary training step."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any) -> float:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss)

    return step


def _fsdp2(model: Any, *, reshard: bool = True) -> Step:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (RANKS,))
    for layer in model:
        fully_shard(layer, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, reshard_after_forward=reshard)
    return _step(model)


def _ddp(model: Any) -> Step:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    return _step(torch.nn.parallel.DistributedDataParallel(model))


def _zero3(model: Any) -> Step:
    import deepspeed
    import torch

    # DeepSpeed's own shared memory would move tensors past the wire (and be compiled first); the collectives are gloo's, as FSDP2's are.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(dist_backend="gloo")
    # Thresholds of nothing: every parameter is cut and gathered, as in the published schedule.
    zero = {"stage": 3, "stage3_param_persistence_threshold": 0, "stage3_max_reuse_distance": 0, "stage3_prefetch_bucket_size": 0,
            "overlap_comm": False}  # fmt: skip
    config = {"train_micro_batch_size_per_gpu": BATCH, "zero_optimization": zero, "zero_allow_untested_optimizer": True,
              "zero_force_ds_cpu_optimizer": False}  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)

    def step(x: Any) -> float:
        loss = engine(x).square().mean()
        engine.backward(loss)
        engine.step()
        return float(loss)

    return step


SYSTEMS: Mapping[str, Callable[[Any], Step]] = {
    "fsdp2": _fsdp2,
    "fsdp2-kept": lambda model: _fsdp2(model, reshard=False),
    "zero3": _zero3,
    "ddp": _ddp,
}

if __name__ == "__main__":
    if len(sys.argv) > 1:
        rank(json.loads(sys.argv[1]))
    else:
        answer(measure)
