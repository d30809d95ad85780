"""Searches on one machine measure in turns: two plans that run at once measure each other."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """Wait until no other search of this machine is measuring; the system gives the turn back when a process dies.

    Where files cannot be locked (Windows, some network file systems) there are no turns: results beside others are called contended.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with contextlib.ExitStack() as stack:
        # One file for all users of the machine; whoever made it, the others can lock it.
        with contextlib.suppress(OSError):
            path = Path(tempfile.gettempdir()) / "advisor-measuring.lock"
            file = stack.enter_context(open(path, "a" if not path.exists() else "r"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
