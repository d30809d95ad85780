"""Compile C on demand: a shared library for this machine, kept under a key of source, compiler, flags and processor."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from microbench.plugin import Unsupported

COMPILERS = ("cc", "gcc", "clang")
COMPILE_S = 120


def flags() -> tuple[str, ...]:
    """Return compiler flags: optimised for this processor (``-march=native``; ARM's compilers call that ``-mcpu``)."""
    native = "-march=native" if platform.machine().lower() in ("x86_64", "amd64", "i686", "riscv64") else "-mcpu=native"
    return ("-O3", native, "-std=gnu11", "-fPIC", "-shared", "-pthread")


def compiler() -> str | None:
    """Return the C compiler: what ``CC`` names, else the first of the usual ones on the path; None if there is none."""
    return next((found for name in (os.environ.get("CC"), *COMPILERS) if name and (found := shutil.which(name))), None)


def compiler_version() -> str | None:
    """Return the compiler with its version, such as ``gcc 12.2.0``; None where there is none."""
    tool = compiler()
    if tool is None:
        return None
    said = subprocess.run([tool, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True, timeout=COMPILE_S, check=False).stdout
    return f"{Path(os.path.realpath(tool)).name} {said.strip() or 'unknown'}"


def cache_folder() -> Path:
    """Return where compiled libraries are kept: below the advisor's data folder where ``ADVISOR_HOME`` names it, else the user's cache."""
    home = os.environ.get("ADVISOR_HOME")
    if home:
        return Path(home) / "native"
    with contextlib.suppress(RuntimeError):
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(base) / "microbench"
    return Path(tempfile.gettempdir()) / f"microbench-{os.getuid()}"


def cpu_flags() -> str:
    """Return what the processor can do, as the kernel tells it; its name where that is all that is known."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(("flags", "Features")):
                return line.strip()
    return platform.processor() or platform.machine()


def key(source: bytes, tool: str) -> str:
    """Return the name of the library: another source, compiler, set of flags or processor is another library."""
    said = subprocess.run([tool, "--version"], capture_output=True, timeout=COMPILE_S, check=False).stdout
    parts = (source, os.fsencode(os.path.realpath(tool)), said, repr(flags()).encode(), cpu_flags().encode(), sys.platform.encode())
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:24]


def library(source: Path) -> Path:
    """Return the compiled ``source``, compiling it unless it is there; Unsupported says why it cannot be.

    The library appears under its name when it is whole, so that processes that compile at once do not meet.
    """
    tool = compiler()
    if tool is None:
        raise Unsupported("there is no C compiler here; `apt install gcc` (or the like) brings one, or set CC")
    text = source.read_bytes()
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        target = folder / f"{source.stem.strip('_')}-{key(text, tool)}.so"
        if target.is_file() and target.stat().st_uid == os.getuid():
            return target
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / target.name
            done = subprocess.run(
                [tool, *flags(), "-o", str(made), str(source)], capture_output=True, text=True, timeout=COMPILE_S, check=False
            )
            if done.returncode:
                raise Unsupported(
                    f"{tool} does not compile {source.name}: {(done.stderr.strip().splitlines() or ['no reason given'])[-1][:200]}"
                )
            made.replace(target)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unsupported(f"{source.name} cannot be compiled: {error}") from error
    return target
