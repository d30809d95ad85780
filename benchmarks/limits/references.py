"""The independent side: triad in C, and matrix products called in the libraries themselves, past every framework.

``python references.py LIBRARY THREADS SECONDS M N K`` prints {"seconds": [...]} of one product each; it is a child of its own, so that
each library has its own threads. Nothing of ``microbench`` is used here.
"""

from __future__ import annotations

import ctypes
import glob
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
LIBRARIES = ("openblas", "onednn", "mkl")
FLAGS = ("-O3", "-march=native", "-pthread")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
#: Row-major, not transposed: the constants of the CBLAS interface.
ROW_MAJOR, NO_TRANSPOSE = 101, 111


class Absent(Exception):
    """The library or the compiler is not on this machine; the message says what was looked for."""


class Triad:
    """The compiled program; compiled once, below a temporary folder."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.program = Path(self._folder.name) / "triad"
        for compiler in ("cc", "gcc", "clang"):
            try:
                subprocess.run(
                    [compiler, *FLAGS, str(HERE / "triad.c"), "-o", str(self.program)], check=True, capture_output=True, text=True
                )
            except FileNotFoundError:
                continue
            except subprocess.CalledProcessError as error:
                raise Absent(f"{compiler} cannot compile triad.c: {error.stderr.strip()[:300]}") from error
            return
        raise Absent("no C compiler (cc, gcc, clang)")

    def measure(self, array_bytes: int, threads: int, seconds: float) -> dict[str, float]:
        """Return bytes/s of each variant by its name: the median pass of about ``seconds``."""
        (first,) = self._run(array_bytes, threads, 1)[:1]
        passes = max(5, round(seconds / max(first[1][0], 1e-4)))
        return {name: 3 * array_bytes / median(times) for name, times in self._run(array_bytes, threads, passes)}

    def _run(self, array_bytes: int, threads: int, passes: int) -> list[tuple[str, list[float]]]:
        arguments = [str(self.program), str(array_bytes // 4), str(threads), str(passes)]
        lines = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.splitlines()
        return [(line.split()[0], [float(word) for word in line.split()[1:]]) for line in lines]


def product(library: str, shape: tuple[int, int, int], threads: int, seconds: float) -> float:
    """Return FLOP/s of an fp32 product through ``library``: the median call of about ``seconds`` in a fresh process."""
    env = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}
    argv = [sys.executable, str(HERE / "references.py"), library, str(threads), str(seconds), *map(str, shape)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Absent((done.stderr.strip().splitlines() or ["it died"])[-1])
    m, n, k = shape
    return 2.0 * m * n * k / median(json.loads(done.stdout)["seconds"])


def openblas(m: int, n: int, k: int) -> Callable[[], object]:
    """Return a call of cblas_sgemm in the OpenBLAS that numpy brings."""
    import numpy as np

    found = glob.glob(f"{np.__path__[0]}.libs/*openblas*") + glob.glob(f"{np.__path__[0]}/.dylibs/*openblas*")
    if not found:
        raise Absent("numpy brings no OpenBLAS")
    library = ctypes.CDLL(found[0])
    names = [(n, w) for n, w in (("scipy_cblas_sgemm64_", 8), ("cblas_sgemm64_", 8), ("cblas_sgemm", 4)) if hasattr(library, n)]
    if not names:
        raise Absent(f"no cblas_sgemm in {found[0]}")
    name, width = names[0]
    arrays = _operands(m, n, k)
    integer = ctypes.c_int64 if width == 8 else ctypes.c_int32
    one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
    pa, pb, pc = (ctypes.c_void_p(array.ctypes.data) for array in arrays)
    order, plain = ctypes.c_int(ROW_MAJOR), ctypes.c_int(NO_TRANSPOSE)
    sizes = [integer(value) for value in (m, n, k)]
    call = getattr(library, name)
    call.restype = None

    def run() -> object:
        call(order, plain, plain, *sizes, one, pa, integer(k), pb, integer(n), zero, pc, integer(n))
        return arrays[2]

    return run


def mkl(m: int, n: int, k: int) -> Callable[[], object]:
    """Return a call of sgemm in the MKL package, or in the MKL that torch links."""
    found = glob.glob(f"{sys.prefix}/lib/libmkl_rt.so*")
    if not found:
        import importlib.util

        spec = importlib.util.find_spec("torch")
        found = glob.glob(f"{Path(spec.origin or '').parent}/lib/libtorch_cpu.so") if spec else []
        if found:
            import torch  # noqa: F401 - loads what libtorch_cpu needs
    library = ctypes.CDLL(found[0]) if found else None
    if library is None or not hasattr(library, "sgemm_") or not hasattr(library, "MKL_Get_Version_String"):
        raise Absent("no MKL: neither the package nor inside torch")
    arrays = _operands(m, n, k)
    one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
    pa, pb, pc = (ctypes.c_void_p(array.ctypes.data) for array in arrays)
    integers = {value: ctypes.byref(ctypes.c_int(value)) for value in (m, n, k)}
    plain = ctypes.c_char_p(b"N")

    def run() -> object:
        # Fortran is column-major: C^T = B^T A^T.
        call(plain, plain, integers[n], integers[m], integers[k], ctypes.byref(one), pb, integers[n], pa, integers[k],
             ctypes.byref(zero), pc, integers[n])  # fmt: skip
        return arrays[2]

    call = library.sgemm_
    call.restype = None
    return run


def onednn(m: int, n: int, k: int) -> Callable[[], object]:
    """Return a call of oneDNN's inner product through torch, with the weight in oneDNN's own layout."""
    try:
        import torch
    except ImportError as error:
        raise Absent("oneDNN is taken from torch, which is not installed") from error
    if not torch.backends.mkldnn.is_available():
        raise Absent("this torch was built without oneDNN")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.set_grad_enabled(False)
    a, b, _ = _operands(m, n, k)
    x = torch.from_numpy(a)
    weight = torch.ops.mkldnn._reorder_linear_weight(torch.from_numpy(b.T.copy()), m)
    return lambda: torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")


def _operands(m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    import numpy as np

    rng = np.random.default_rng(1)
    return rng.random((m, k), np.float32), rng.random((k, n), np.float32), np.zeros((m, n), np.float32)


def main(library: str, threads: int, seconds: float, shape: tuple[int, int, int]) -> None:
    """Time one library in this process, check one element of the result, and print the seconds of each call."""
    import numpy as np

    run = {"openblas": openblas, "mkl": mkl, "onednn": onednn}[library](*shape)
    got = np.asarray(run())
    a, b, _ = _operands(*shape)
    want = a[-1].astype(np.float64) @ b[:, -1].astype(np.float64)
    if abs(got[-1, -1] - want) > 1e-4 * want:
        raise Absent(f"{library} computes {got[-1, -1]:g} where {want:g} is right")
    times: list[float] = []
    end = time.perf_counter() + seconds
    for _ in range(3):
        run()
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    print(json.dumps({"seconds": times}))


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), (int(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6])))
    except Absent as error:
        sys.exit(str(error))
