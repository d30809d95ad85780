"""System calls of the operating system: reads a file past the page cache, for the bandwidth of a disk."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case

#: Bytes of one read: large enough that a disk, not the call, is the limit; a multiple of every sector and page size.
CHUNK = 4 << 20
IN_MEMORY = ("tmpfs", "ramfs")


def file_system(folder: str) -> str | None:
    """Return the type of the file system that holds ``folder`` (/proc/mounts), None where the system does not tell."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except (OSError, ValueError):
        return None
    real = Path(folder).resolve()
    holding = [(len(point), kind) for point, kind in mounts if real.is_relative_to(point)]
    return max(holding)[1] if holding else None


class PosixSession:
    """Files below the temporary folder, removed with the process."""

    version = os.uname().release if hasattr(os, "uname") else "unknown"

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        if not hasattr(os, "preadv") or not hasattr(os, "posix_fadvise"):
            raise Unsupported("this system cannot read a file past its page cache (preadv, posix_fadvise)")
        self.threads = threads
        self.folder = tempfile.TemporaryDirectory(prefix="microbench")
        kind = file_system(self.folder.name)
        if kind in IN_MEMORY:
            raise Unsupported(f"the temporary folder {self.folder.name} is in memory ({kind}); name one on a disk with TMPDIR")
        self.kind = kind

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Write the file, and read it with ``threads`` threads, a slice each."""
        import numpy as np

        if case.benchmark != "bandwidth" or case.params.get("operation") != "read":
            raise Unsupported("the posix backend reads files")
        data = inputs["b"]
        path = Path(self.folder.name) / "data"
        with path.open("wb") as file:
            file.write(memoryview(data).cast("B"))
            file.flush()
            os.fsync(file.fileno())
        direct, handle = self._open(path)
        # An anonymous map begins at a page, as direct reads want.
        buffer = mmap.mmap(-1, -(-data.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE)
        view, size = memoryview(buffer), data.nbytes
        pool = ThreadPoolExecutor(self.threads)

        def read(offset: int) -> None:
            end = min(offset + CHUNK, len(view))
            while offset < min(end, size):
                count = os.preadv(handle, [view[offset:end]], offset)
                if count <= 0:
                    raise OSError(f"{path} ended at {offset} of {size} bytes")
                offset += count

        def run() -> None:
            if not direct:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            # The list raises what a thread raised.
            list(pool.map(read, range(0, size, CHUNK)))

        array = np.frombuffer(buffer, data.dtype, data.size)
        notes = {"direct": direct, "file_system": self.kind}
        return Kernel(run, lambda: array, lambda: array.fill(np.nan), notes)

    def _open(self, path: Path) -> tuple[bool, int]:
        """Return whether reads go past the page cache by themselves, and the open file."""
        try:
            return True, os.open(path, os.O_RDONLY | os.O_DIRECT)
        except (OSError, AttributeError):
            return False, os.open(path, os.O_RDONLY)


BACKEND = Backend(
    name="posix",
    module="mmap",
    install="comes with Python",
    open=PosixSession,
    dtypes={"bandwidth": ("fp32",)},
    operations={"bandwidth": ("read",)},
)
