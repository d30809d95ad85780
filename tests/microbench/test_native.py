"""The native backend: compiled once for source, compiler and processor; right at every length; honest where there is no compiler."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from microbench.backends import _native_blas, _native_build, native
from microbench.benchmarks.bandwidth import ARRAYS, BandwidthProblem
from microbench.plugin import Unsupported
from microbench.protocol import Case

needs_compiler = pytest.mark.skipif(_native_build.compiler() is None, reason="there is no C compiler here")


def bandwidth(operation: str, count: int, dtype: str = "fp32", level: str = "memory") -> Case:
    size = {"fp32": 4, "fp64": 8}[dtype]
    return Case(
        benchmark="bandwidth", dtype=dtype, params={"operation": operation, "level": level, "bytes": ARRAYS[operation] * size * count}
    )


def measured(session: native.NativeSession, case: Case) -> tuple[float, str]:
    """Return the error of one pass over poisoned memory, and how it stored."""
    problem = BandwidthProblem(case, 0)
    kernel = session.build(case, problem.inputs)
    kernel.poison()
    assert np.isnan(kernel.result()).all()
    kernel.run()
    return problem.check(kernel.result()), kernel.notes["stores"]


@needs_compiler
@pytest.mark.parametrize("threads", [1, 3])
def test_every_operation_is_right_at_every_length(threads):
    session = native.NativeSession("cpu", threads, {})
    for dtype in ("fp32", "fp64"):
        for operation in native.OPERATIONS:
            # One element, less than a line, lines that do not divide among threads, and an end that fills no line.
            for count in (1, 7, 16, 97, 4096, 100_003):
                error, _ = measured(session, bandwidth(operation, count, dtype))
                assert error < 2.0**-21


@needs_compiler
def test_both_ways_to_store_are_right(monkeypatch):
    session = native.NativeSession("cpu", 2, {})
    ways = {}
    for prefer in ("plain", "non-temporal"):
        monkeypatch.setattr(native, "_fastest", lambda found, prefer=prefer: prefer if prefer in found else next(iter(found)))
        ways[prefer] = measured(session, bandwidth("triad", 100_003))
    assert ways["plain"][1] == "plain"
    if session.library.native_has_streaming():
        assert ways["non-temporal"][1] == "non-temporal"
    assert max(error for error, _ in ways.values()) < 2.0**-21
    # Around the caches only where the arrays do not lie in them.
    assert measured(session, bandwidth("triad", 4096, level="L2"))[1] == "plain"


@needs_compiler
def test_it_is_compiled_once_and_again_for_other_source(tmp_path, monkeypatch):
    monkeypatch.setenv("ADVISOR_HOME", str(tmp_path))
    first = _native_build.library(native.SOURCE)
    before = first.stat().st_mtime_ns
    assert _native_build.library(native.SOURCE) == first
    assert first.stat().st_mtime_ns == before
    changed = tmp_path / "_native.c"
    changed.write_bytes(native.SOURCE.read_bytes() + b"\n")
    assert _native_build.library(changed) != first
    monkeypatch.setattr(_native_build, "cpu_flags", lambda: "flags : another processor")
    assert _native_build.library(native.SOURCE) not in (first, _native_build.library(changed))
    assert not [path for path in (tmp_path / "native").iterdir() if path.suffix != ".so"]


@needs_compiler
def test_processes_that_compile_at_once_both_get_a_library(tmp_path):
    program = "from microbench.backends import _native_build, native; print(_native_build.library(native.SOURCE))"
    env = {**os.environ, "ADVISOR_HOME": str(tmp_path)}
    both = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=env) for _ in range(2)]
    assert len({process.communicate(timeout=60)[0] for process in both}) == 1
    assert [process.returncode for process in both] == [0, 0]


@needs_compiler
def test_what_does_not_compile_is_unsupported_with_the_compilers_words(tmp_path):
    source = tmp_path / "bad.c"
    source.write_text("int f(void) { return nothing_of_the_kind; }\n")
    with pytest.raises(Unsupported, match=r"bad\.c"):
        _native_build.library(source)


@pytest.mark.parametrize("threads", [1, 2])
def test_without_a_compiler_there_is_the_librarys_copy(threads, monkeypatch):
    monkeypatch.setattr(native, "compiler", lambda: None)
    session = native.NativeSession("cpu", threads, {})
    assert measured(session, bandwidth("copy", 100_003)) == (0.0, "memcpy")
    with pytest.raises(Unsupported, match="compiler"):
        measured(session, bandwidth("triad", 64))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_every_blas_that_is_found_multiplies(kind):
    found = _native_blas.libraries(2)
    if not found:
        pytest.skip("no library with cblas_sgemm is here")
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((5, 9)).astype(kind), rng.standard_normal((9, 7)).astype(kind)
    for blas in found:
        out = np.full((5, 7), np.nan, kind)
        blas.multiply(a, b, out)()
        assert np.allclose(out, a.astype(np.float64) @ b, rtol=1e-5), blas.name


def test_what_it_has_not_is_said():
    session = native.NativeSession("cpu", 1, {})
    for case in (
        Case(benchmark="gemm", dtype="bf16", params={"m": 4, "n": 4, "k": 4}),
        Case(benchmark="attention", dtype="fp32", params={}),
        Case(benchmark="gemm", dtype="fp32", params={"m": 4, "n": 4, "k": 4, "weight": "constant"}),
    ):
        with pytest.raises(Unsupported):
            session.build(case, {})
