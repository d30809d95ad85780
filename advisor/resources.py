"""Where the data files are: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_PACKAGE = Path(__file__).resolve().parent


def data_dir(name: str) -> Path:
    """Return the folder of shipped data ``name`` (``hardware_profiles`` or ``db``).

    A wheel carries it under ``advisor/_data``; an editable install reads the checkout.
    """
    for base in (_PACKAGE / "_data", _PACKAGE.parent):
        if (base / name).is_dir():
            return base / name
    raise FileNotFoundError(f"shipped data folder {name!r} is missing beside {_PACKAGE}")


def home_dir() -> Path:
    """Return the user's home; a user without one (an arbitrary uid in a container) gets a folder of the temporary ones."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"advisor-{os.getuid() if hasattr(os, 'getuid') else 'user'}"


def user_path(text: str) -> Path:
    """Return the path that a user typed, ``~`` put in place; the name of a user who is not known stays as it is."""
    return Path(os.path.expanduser(text))


def open_without_waiting(path: Path) -> BinaryIO:
    """Open a file that a user named for reading. A named pipe that nobody writes into is empty, and does not wait for a writer."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if hasattr(os, "set_blocking") and sys.platform != "win32":
            os.set_blocking(descriptor, True)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


@contextlib.contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """Give the path to write ``target`` under: it appears under its own name only when it is whole, and not at all after a failure.

    What is there and is no ordinary file (``/dev/stdout``, a pipe) is written to as it is, and never replaced.
    """
    if target.exists() and not target.is_file():
        yield target
        return
    target = target.resolve()  # a link stays a link: what it leads to is replaced
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(target)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def user_data_dir() -> Path:
    """Return the folder for this user's database and caches (not created here); ``ADVISOR_HOME`` overrides it."""
    override = os.environ.get("ADVISOR_HOME")
    if override:
        return Path(override)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(home_dir() / "AppData/Local"))) / "advisor"
    if sys.platform == "darwin":
        return home_dir() / "Library/Application Support/advisor"
    return Path(os.environ.get("XDG_DATA_HOME") or home_dir() / ".local/share") / "advisor"
