"""Find BLAS libraries at run time and call their CBLAS products: the one numpy or scipy carry, OpenBLAS, BLIS, MKL of the system.

The names and the integer width of ``cblas_sgemm`` differ: numpy's wheels carry OpenBLAS with 64-bit integers as
``scipy_cblas_sgemm64_``, scipy's with 32-bit ones as ``scipy_cblas_sgemm``.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Prefix and suffix of the routines, and the integer they take.
SPELLINGS = (("scipy_", "64_", ctypes.c_int64), ("scipy_", "", ctypes.c_int), ("", "64_", ctypes.c_int64), ("", "", ctypes.c_int))
#: How each library is told its number of threads; the argument is an int by value.
THREAD_SETTERS = ("openblas_set_num_threads", "MKL_Set_Num_Threads", "bli_thread_set_num_threads")
SYSTEM = ("openblas", "blis", "mkl_rt", "cblas", "blas")
ROW_MAJOR, NO_TRANSPOSE = 101, 111


@dataclass(frozen=True, slots=True)
class Blas:
    """A library with its two products; ``integer`` is the type of sizes."""

    name: str
    sgemm: Any
    dgemm: Any
    integer: Any

    def multiply(self, a: Any, b: Any, out: Any) -> Any:
        """Return a function that computes out = a b for contiguous arrays of float32 or float64."""
        double = a.dtype.itemsize == 8
        function, real = (self.dgemm, ctypes.c_double) if double else (self.sgemm, ctypes.c_float)
        i, (m, k), n = self.integer, a.shape, b.shape[1]
        where = [ctypes.c_void_p(array.ctypes.data) for array in (a, b, out)]
        sizes = (i(m), i(n), i(k))
        arguments = (
            ctypes.c_int(ROW_MAJOR), ctypes.c_int(NO_TRANSPOSE), ctypes.c_int(NO_TRANSPOSE), *sizes,
            real(1.0), where[0], i(k), where[1], i(n), real(0.0), where[2], i(n),
        )  # fmt: skip
        return lambda: function(*arguments)


def libraries(threads: int) -> list[Blas]:
    """Return every CBLAS that can be loaded here, each told to use ``threads``; libraries that are the same file once."""
    found: dict[str, Blas] = {}
    for path in _candidates():
        try:
            handle = ctypes.CDLL(path)
        except OSError:
            continue
        blas = _bound(Path(path).name, handle)
        if blas is not None:
            _set_threads(handle, threads)
            found.setdefault(str(Path(path).resolve()) if Path(path).is_file() else path, blas)
    return list(found.values())


def _candidates() -> Iterator[str]:
    """Yield libraries in the wheels of numpy and scipy, then of the system."""
    for package in ("numpy", "scipy"):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            folder = Path(spec.origin).parent
            for place in (folder.with_name(f"{package}.libs"), folder / ".dylibs"):
                yield from (str(path) for path in sorted(place.glob("*openblas*")))
    for name in SYSTEM:
        found = ctypes.util.find_library(name)
        if found is not None:
            yield found


def _bound(name: str, handle: Any) -> Blas | None:
    for prefix, suffix, integer in SPELLINGS:
        functions = [getattr(handle, f"{prefix}cblas_{letter}gemm{suffix}", None) for letter in "sd"]
        if None not in functions:
            for function in functions:
                function.restype = None
            return Blas(name, functions[0], functions[1], integer)
    return None


def _set_threads(handle: Any, threads: int) -> None:
    for setter in THREAD_SETTERS:
        for prefix, suffix, _ in SPELLINGS:
            function = getattr(handle, f"{prefix}{setter}{suffix}", None)
            if function is not None:
                function(ctypes.c_int(threads))
                return
