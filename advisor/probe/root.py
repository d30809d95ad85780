"""The one door through which the probe reads files, so that a recorded machine can stand in for this one."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from advisor.resources import open_without_waiting

MAX_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Root:
    """A file system seen from ``/``: this machine's, or a recorded one below ``base``.

    Readers take a Root and never open a path themselves. A file that is missing, unreadable or not text is None:
    on real machines any of them may be. ``environ`` is the environment of the machine (empty on a recorded one).
    """

    base: Path = Path("/")
    environ: dict[str, str] = field(default_factory=dict)

    @classmethod
    def live(cls) -> Root:
        """Return the root of the machine this process runs on, with its environment."""
        return cls(Path("/"), dict(os.environ))

    @property
    def is_live(self) -> bool:
        """Tell whether this is the running machine: only then may libraries and tools be called."""
        return self.base == Path("/")

    def path(self, name: str) -> Path:
        """Return where ``name`` (``/proc/cpuinfo``) lies on this root; never outside ``base``."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ValueError(f"a probe path may not contain '..': {name}")
        return self.base.joinpath(*parts)

    def text(self, name: str) -> str | None:
        """Return a file's text (undecodable bytes replaced, at most 8 MiB), or None if it cannot be read."""
        try:
            with open_without_waiting(self.path(name)) as file:
                # On a recorded machine a device, a pipe or a terminal is nothing to read from: it belongs to this one.
                if not self.is_live and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return None
                return file.read(MAX_BYTES).decode("utf-8", "replace")
        except (OSError, ValueError):
            return None

    def line(self, name: str) -> str | None:
        """Return a file's content with surrounding white space and NULs removed, or None if unreadable or empty."""
        text = self.text(name)
        return (text.strip(" \t\r\n\0") or None) if text is not None else None

    def integer(self, name: str, base: int = 10) -> int | None:
        """Return the integer a file holds, or None (``base=0`` accepts a 0x prefix)."""
        line = self.line(name)
        try:
            return int(line.split()[0], base) if line else None
        except (ValueError, IndexError):  # IndexError: white space that ``line`` does not count as such
            return None

    def names(self, name: str) -> list[str]:
        """Return the sorted names in a folder, or an empty list if it cannot be read."""
        try:
            return sorted(os.listdir(self.path(name)))
        except (OSError, ValueError):
            return []

    def exists(self, name: str) -> bool:
        """Tell whether a path exists (a dangling link does not)."""
        try:
            return self.path(name).exists()
        except OSError:
            return False

    def link(self, name: str) -> str | None:
        """Return the target of a symbolic link as written, or None."""
        try:
            return os.readlink(self.path(name))
        except OSError:
            return None

    def access(self, name: str) -> bool | None:
        """Tell whether a node can be opened for reading and writing by this process; None if it is not there.

        On a recorded machine permissions mean nothing: an existing node counts as accessible.
        """
        if not self.exists(name):
            return None
        return os.access(self.path(name), os.R_OK | os.W_OK) if self.is_live else True

    def denied(self, name: str) -> bool:
        """Tell whether reading fails for want of permission rather than absence."""
        try:
            with open_without_waiting(self.path(name)) as file:
                file.read(1)
        except OSError as error:
            return error.errno in (errno.EACCES, errno.EPERM)
        return False
