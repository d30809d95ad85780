"""numpy: OpenBLAS (or whatever numpy was built with) for GEMM, ufuncs for bandwidth, split over Python threads.

Ufuncs release the interpreter lock on large arrays, so a pool of threads, each with its slice, is numpy's own way to all cores.
"""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from microbench.benchmarks.dataload import spread, stage
from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
DTYPES = {"fp32": "float32", "fp64": "float64"}


class NumpySession:
    """numpy, with a pool of ``threads`` threads for element-wise work."""

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import numpy

        self.np, self.version, self.threads = numpy, numpy.__version__, threads
        self.pool = ThreadPoolExecutor(threads)

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make one case ready."""
        builders = {
            "gemm": self._gemm,
            "attention": self._attention,
            "bandwidth": self._bandwidth,
            "launch": self._launch,
            "dataload": self._dataload,
        }
        if case.benchmark not in builders:
            raise Unsupported(f"numpy has no {case.benchmark}")
        if case.dtype not in DTYPES:
            raise Unsupported(f"numpy has no fast {case.dtype} arithmetic (no BLAS routine for it)")
        return builders[case.benchmark](case, inputs)

    def _gemm(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        a, b = inputs["a"], inputs["b"]
        out = self.np.empty((a.shape[0], b.shape[1]), a.dtype)
        return Kernel(lambda: self.np.matmul(a, b, out=out), lambda: out, lambda: out.fill(self.np.nan))

    def _attention(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        np = self.np
        q, k, v = inputs["q"], inputs["k"], inputs["v"]
        batch, heads, query, size = q.shape
        kv_heads, keys = k.shape[1:3]
        grouped = q.reshape(batch, kv_heads, heads // kv_heads * query, size)
        mask = np.zeros((query, keys), q.dtype)
        if case.params["causal"]:
            mask[np.arange(keys)[None, :] > np.arange(query)[:, None] + (keys - query)] = -np.inf
        scale = q.dtype.type(size**-0.5)
        out = np.empty_like(grouped)

        def run() -> None:
            scores = np.matmul(grouped, k.swapaxes(-1, -2))
            scores *= scale
            view = scores.reshape(batch, kv_heads, heads // kv_heads, query, keys)
            view += mask
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=-1, keepdims=True)
            np.matmul(scores, v, out=out)

        return Kernel(run, lambda: out.reshape(q.shape), lambda: out.fill(np.nan))

    def _launch(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        x, w = inputs["x"], inputs["w"]
        box = [x]

        def run() -> None:
            y = x
            for _ in range(inputs["operators"]):
                y = self.np.matmul(y, w)
            box[0] = y

        return Kernel(run, lambda: box[0])

    def _dataload(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        np, folder, count = self.np, inputs["folder"], inputs["samples"]
        use, kind, workers = stage(case.params), case.params.get("format"), int(case.params["workers"])
        mapped = np.load(folder / "all.npy", mmap_mode="r")
        box: list[Any] = [None]

        def shard(number: int) -> list[float]:
            with tarfile.open(folder / f"shard-{number:04}.tar") as archive:
                return [use(np.frombuffer(archive.extractfile(item).read(), np.uint8)) for item in archive]

        if kind == "tar":
            every = spread(shard, inputs["shards"], workers)
            load = lambda: [value for part in every() for value in part]  # noqa: E731
        elif kind == "files":
            load = spread(lambda index: use(np.load(folder / f"{index:06}.npy")), count, workers)
        elif kind == "memmap":
            load = spread(lambda index: use(mapped[index]), count, workers)
        else:
            raise Unsupported(f"numpy reads no {kind!r}")

        def run() -> None:
            box[0] = load()

        return Kernel(run, lambda: np.array(box[0]))

    def _bandwidth(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        np, b = self.np, inputs["b"]
        a = np.full_like(b, np.nan)
        c = inputs.get("c", b)
        factor = b.dtype.type(inputs["factor"])

        def triad(x: Any, y: Any, z: Any) -> None:
            np.multiply(z, factor, out=x)
            np.add(x, y, out=x)

        def scale(x: Any, y: Any, z: Any) -> None:
            np.multiply(y, factor, out=x)

        def copy(x: Any, y: Any, z: Any) -> None:
            np.copyto(x, y)

        def add(x: Any, y: Any, z: Any) -> None:
            np.add(y, z, out=x)

        operation = {"copy": copy, "scale": scale, "add": add, "triad": triad}[case.params["operation"]]
        if self.threads == 1:
            run = lambda: operation(a, b, c)  # noqa: E731
        else:
            parts = list(zip(*(np.array_split(array, self.threads) for array in (a, b, c)), strict=True))
            run = lambda: wait([self.pool.submit(operation, *part) for part in parts])  # noqa: E731
        return Kernel(run, lambda: a, lambda: a.fill(np.nan))


BACKEND = Backend(
    name="numpy",
    module="numpy",
    install="pip install numpy",
    open=NumpySession,
    env=lambda threads: dict.fromkeys(THREAD_VARIABLES, str(threads)),
    dtypes={"gemm": ("fp32", "fp64"), "attention": ("fp32",), "bandwidth": ("fp32",), "launch": ("fp32",), "dataload": ("fp32",)},
    variants={"gemm": ("dynamic",), "attention": ("math",), "dataload": ("files", "tar", "memmap")},
)
