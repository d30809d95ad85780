"""torch.distributed between processes of this host: rank 0 is the measuring process, the others are started here.

gloo between processes on the CPU, NCCL (RCCL) between as many CUDA devices, rank by rank from the first.
The other ranks repeat the operation for ever: it blocks until rank 0 calls it too. They end with their standard input, that is with
rank 0, and are killed before the next case.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import Any

from microbench import conditions
from microbench.benchmarks.collective import rank_inputs
from microbench.plugin import Kernel, Unsupported
from microbench.protocol import Case

JOIN_S = 60
TRANSPORTS = {"cpu": "gloo", "cuda": "nccl"}


class Group:
    """The processes of the current case."""

    def __init__(self) -> None:
        self.others: list[subprocess.Popen[str]] = []
        self.folder: tempfile.TemporaryDirectory[str] | None = None

    def start(self, params: Mapping[str, Any], seed: int, transport: str) -> str:
        """End the ranks of the case before, start those of this one; return the address they meet at."""
        self.stop()
        self.folder = tempfile.TemporaryDirectory()
        where = f"file://{self.folder.name}/meet"
        for rank in range(1, params["ranks"]):
            message = json.dumps({"params": dict(params), "seed": seed, "rank": rank, "where": where, "transport": transport})
            other = subprocess.Popen(
                [sys.executable, "-m", "microbench.backends._torch_collective", message],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            )
            self.others.append(other)
            conditions.helpers.add(other.pid)
        return where

    def stop(self) -> None:
        """End the other ranks."""
        import torch.distributed as dist

        for other in self.others:
            other.kill()
            other.wait()
        self.others.clear()
        if dist.is_initialized():
            dist.destroy_process_group()
        if self.folder is not None:
            self.folder.cleanup()
            self.folder = None


_GROUP = Group()


def build(session: Any, case: Case, inputs: Mapping[str, Any]) -> Kernel:
    """Make one collective ready between ``ranks`` processes; gloo on CPUs."""
    import torch.distributed as dist

    params, transport = case.params, TRANSPORTS.get(session.device.partition(":")[0])
    if case.dtype != "fp32" or transport is None:
        raise Unsupported("torch collectives are measured in fp32 between processes on the CPU or between CUDA devices")
    if not dist.is_available() or not getattr(dist, f"is_{transport}_available")():
        raise Unsupported(f"this torch was built without torch.distributed and {transport}")
    if transport == "nccl" and session.torch.cuda.device_count() < params["ranks"]:
        raise Unsupported(f"there are {session.torch.cuda.device_count()} CUDA devices, {params['ranks']} ranks need as many")
    run, out = join(params, 0, inputs["seed"], _GROUP.start(params, inputs["seed"], transport), transport)
    try:
        run()
    except RuntimeError as error:
        if "support" in str(error) or "not implemented" in str(error).lower():
            raise Unsupported(f"{transport} has no {params['operation']}: {str(error).splitlines()[0][:200]}") from error
        raise
    return session.kernel(run, out, transport=transport)


def join(params: Mapping[str, Any], rank: int, seed: int, where: str, transport: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Join the group as ``rank`` and return (one call of the operation, its result); NCCL only queues the call."""
    import datetime

    import torch
    import torch.distributed as dist

    device = torch.device("cpu" if transport == "gloo" else f"cuda:{rank}")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    ranks, operation = params["ranks"], params["operation"]
    dist.init_process_group(transport, init_method=where, rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=JOIN_S))
    x = torch.from_numpy(rank_inputs(params, rank, seed)).to(device)
    if operation == "all_reduce":
        out = torch.empty_like(x)

        def all_reduce() -> None:
            # The operation is in place, so that it starts from a copy: summing sums again would overflow in the end.
            out.copy_(x)
            dist.all_reduce(out)

        return all_reduce, lambda: out
    if operation == "all_gather":
        out = torch.empty(ranks * len(x), device=device)
        return lambda: dist.all_gather_into_tensor(out, x), lambda: out
    if operation == "reduce_scatter":
        out = torch.empty(len(x) // ranks, device=device)
        return lambda: dist.reduce_scatter_tensor(out, x), lambda: out
    out = torch.empty_like(x)
    if operation == "all_to_all":
        return lambda: dist.all_to_all_single(out, x), lambda: out

    def send_recv() -> None:
        following, preceding = (rank + 1) % ranks, (rank - 1) % ranks
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, following), dist.P2POp(dist.irecv, out, preceding)]):
            work.wait()

    return send_recv, lambda: out


def _follow(message: str) -> None:
    """Be one of the other ranks until rank 0 is gone."""
    request = json.loads(message)

    def watch() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    run, out = join(request["params"], request["rank"], request["seed"], request["where"], request["transport"])
    while True:
        run()
        if out().is_cuda:
            # Or the calls would queue without end.
            import torch

            torch.cuda.synchronize()


if __name__ == "__main__":
    _follow(sys.argv[1])
