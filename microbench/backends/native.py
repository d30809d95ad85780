"""The machine itself: C kernels compiled on demand for bandwidth, the fastest BLAS that is found at run time for GEMM."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from microbench.backends._native_build import compiler, compiler_version, library
from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case

SOURCE = Path(__file__).with_name("_native.c")
ELEMENTS = {"fp32": 0, "fp64": 1}
OPERATIONS = {"copy": 0, "scale": 1, "add": 2, "triad": 3}
FILL = 4
#: Huge pages of the usual size; arrays begin at one, so that the kernel can back all of them with huge pages.
HUGE = 2 << 20
#: Passes of each candidate (way of storing, BLAS library) when the fastest is chosen.
TRIALS = 3


class NativeSession:
    """A pool of ``threads`` in C, and the BLAS libraries of this machine."""

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import numpy

        if device != "cpu":
            raise Unsupported("the native backend runs on the CPU")
        self.np, self.threads, self.version = numpy, threads, compiler_version() or f"libc {platform.libc_ver()[1]}"
        self.library: Any = None
        self.blas: list[Any] | None = None

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make one case ready."""
        if case.benchmark not in ("gemm", "bandwidth"):
            raise Unsupported(f"the native backend has no {case.benchmark}")
        if case.dtype not in ELEMENTS:
            raise Unsupported(f"the native backend computes in fp32 and fp64, not in {case.dtype}")
        if case.benchmark == "bandwidth" and case.params["operation"] not in OPERATIONS:
            raise Unsupported(f"the native backend has no {case.params['operation']}")
        return self._gemm(case, inputs) if case.benchmark == "gemm" else self._bandwidth(case, inputs)

    def _kernels(self) -> Any:
        """Return the compiled library with its pool started, a thread a CPU where there are enough."""
        if self.library is None:
            handle = ctypes.CDLL(str(library(SOURCE)))
            pointer, number = ctypes.c_void_p, ctypes.c_int
            handle.native_run.argtypes = [number, number, number, pointer, pointer, pointer, ctypes.c_double, ctypes.c_size_t]
            handle.native_run.restype = None
            cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
            places = (number * self.threads)(*cpus[: self.threads]) if 1 < self.threads <= len(cpus) else None
            error = handle.native_start(self.threads, places)
            if error:
                raise Unsupported(f"the system gives no {self.threads} threads: {os.strerror(error)}")
            self.library = handle
        return self.library

    def _array(self, count: int, dtype: str) -> Any:
        """Return an array that begins at a huge page and that the pool has touched first, each thread its own slice."""
        size = count * self.np.dtype(dtype).itemsize
        memory = mmap.mmap(-1, size + 2 * HUGE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        whole = self.np.frombuffer(memory, self.np.uint8)
        start = -whole.ctypes.data % HUGE
        return whole[start : start + size].view(dtype)

    def _bandwidth(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        if compiler() is None:
            return self._memcpy(case, inputs)
        start = time.perf_counter()
        library, element = self._kernels(), ELEMENTS[case.dtype]
        operation, factor = OPERATIONS[case.params["operation"]], float(inputs["factor"])
        count, dtype = inputs["b"].size, inputs["b"].dtype
        arrays = {name: self._array(count, dtype) for name in ("a", "b", "c") if name == "a" or name in inputs}
        where = {name: ctypes.c_void_p(array.ctypes.data) for name, array in arrays.items()}
        a, b, c = where["a"], where["b"], where.get("c", where["b"])

        def poison() -> None:
            library.native_run(element, FILL, 0, a, b, c, float("nan"), count)

        for name, array in arrays.items():
            library.native_run(element, FILL, 0, where[name], b, c, 0.0, count)
            if name != "a":
                array[:] = inputs[name]
        ways: dict[str, Callable[[], Any]] = {"plain": lambda: library.native_run(element, operation, 0, a, b, c, factor, count)}
        # Past the caches only: what is stored around them is read from memory by the next pass.
        if library.native_has_streaming() and case.params.get("level") == "memory":
            ways["non-temporal"] = lambda: library.native_run(element, operation, 1, a, b, c, factor, count)
        name = _fastest(ways)
        keep = (arrays, where)
        notes = {"stores": name, "compiled": library._name.rpartition("/")[2], "prepare_s": time.perf_counter() - start}
        return Kernel(ways[name], lambda: keep[0]["a"], poison, notes)

    def _memcpy(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Copy with the C library's memcpy, a slice a thread: it stores around the caches what is larger than them."""
        if case.params["operation"] != "copy":
            raise Unsupported("without a C compiler there is only the C library's copy; `apt install gcc` (or the like) brings one")
        memcpy, pool = ctypes.CDLL(None).memcpy, ThreadPoolExecutor(self.threads)
        memcpy.argtypes, memcpy.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_void_p
        a, b = (self._array(inputs["b"].size, inputs["b"].dtype) for _ in range(2))
        b[:] = inputs["b"]
        a.fill(self.np.nan)
        slices = [
            (x.ctypes.data, y.ctypes.data, x.nbytes) for x, y in zip(*(self.np.array_split(v, self.threads) for v in (a, b)), strict=True)
        ]
        if self.threads == 1:
            return Kernel(lambda: memcpy(*slices[0]), lambda: (a, b)[0], lambda: a.fill(self.np.nan), {"stores": "memcpy"})
        # ctypes lets the interpreter lock go while the call runs.
        return Kernel(
            lambda: wait([pool.submit(memcpy, *piece) for piece in slices]),
            lambda: (a, b)[0],
            lambda: a.fill(self.np.nan),
            {"stores": "memcpy"},
        )

    def _gemm(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        from microbench.backends._native_blas import libraries

        if case.params.get("weight") == "constant":
            raise Unsupported("BLAS takes both operands as they are")
        if self.blas is None:
            self.blas = libraries(self.threads)
        if not self.blas:
            raise Unsupported("no library with cblas_sgemm is found; `pip install numpy` or `apt install libopenblas0` brings one")
        a, b = (self.np.ascontiguousarray(inputs[name]) for name in "ab")
        out = self.np.full((a.shape[0], b.shape[1]), self.np.nan, a.dtype)
        ways = {blas.name: blas.multiply(a, b, out) for blas in self.blas}
        name = _fastest(ways)
        keep = (a, b)
        return Kernel(ways[name], lambda: (out, keep)[0], lambda: out.fill(self.np.nan), {"library": name})


def _fastest(ways: Mapping[str, Callable[[], Any]]) -> str:
    """Return the name of the way whose quickest pass is quickest, of passes taken in turn; the first where there is one."""
    if len(ways) == 1:
        return next(iter(ways))
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(TRIALS):
        for name, run in ways.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return min(best, key=best.__getitem__)


def environment(threads: int) -> dict[str, str]:
    """Return what holds before a BLAS is loaded."""
    return {name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")}


BACKEND = Backend(
    name="native",
    module="numpy",
    install="pip install numpy",
    open=NativeSession,
    env=environment,
    dtypes={"gemm": ("fp32", "fp64"), "bandwidth": ("fp32", "fp64")},
    variants={"gemm": ("dynamic",)},
)
