"""Where a database is: a URL taken apart, and what a file's folder allows. Standard library only."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from advisor.errors import DatabaseError

FORMS = "write sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME"
#: File systems on which SQLite's shared-memory WAL index does not work between hosts (https://sqlite.org/wal.html, section 1).
NETWORK_FILE_SYSTEMS = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "lustre",
    "gpfs",
    "beegfs",
    "ceph",
    "afs",
    "9p",
    "glusterfs",
    "pvfs2",
    "orangefs",
}
NETWORK_FUSE = ("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.gcsfuse", "fuse.juicefs", "fuse.rclone", "fuse.beegfs")

_SQLITE_HEADER = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True)
class Address:
    """A database's place: a SQLite file, or a PostgreSQL URL for SQLAlchemy. ``shown`` never holds a password."""

    dialect: Literal["sqlite", "postgresql"]
    shown: str
    path: Path | None = None
    url: str | None = None

    @property
    def upgrade(self) -> str:
        """Return the command that creates or upgrades this very database (with stars for a password)."""
        url = f"sqlite:///{self.shown}" if self.dialect == "sqlite" else self.shown
        return f"advisor --db {shlex.quote(url)} db upgrade"


def parse_url(url: str) -> Address:
    """Return the Address of ``url``; raises DatabaseError where it is none."""
    scheme, separator, rest = url.strip().partition("://")
    name = scheme.lower().partition("+")[0]
    if not separator or not name:
        raise DatabaseError("DB-URL", f"not a database URL: {hide_password(url)!r}", FORMS)
    if name == "sqlite":
        return _sqlite_address(rest, url)
    if name in ("postgresql", "postgres"):
        _, _, driver = scheme.lower().partition("+")
        if driver not in ("", "psycopg"):
            raise DatabaseError("DB-URL", f"driver {driver!r} is not supported", "write postgresql+psycopg://USER@HOST/NAME")
        return Address("postgresql", hide_password(url.strip()), url=f"postgresql+psycopg://{rest}")
    raise DatabaseError("DB-URL", f"databases of kind {name!r} are not supported", FORMS)


def _sqlite_address(rest: str, url: str) -> Address:
    path = rest.partition("?")[0]
    if not path.startswith("/") or path in ("/", "/:memory:"):
        why = (
            "names no file" if path in ("", "/", "/:memory:") else "needs three slashes before a relative path, four before an absolute one"
        )
        raise DatabaseError("DB-URL", f"{url!r} {why}", "write sqlite:///FILE")
    try:
        file = Path(os.path.abspath(os.path.expanduser(path[1:])))
        str(file).encode("utf-8")
    except (UnicodeEncodeError, FileNotFoundError) as error:
        why = "the current folder was deleted" if isinstance(error, FileNotFoundError) else "its name is not UTF-8"
        raise DatabaseError("DB-FILE", f"cannot open {path[1:]!r}: {why}", "name another with --db sqlite:////FOLDER/FILE") from error
    return Address("sqlite", str(file), path=file)


def hide_password(text: str) -> str:
    """Return ``text`` with the password of any URL in it, and of ``password=`` options, replaced by stars."""
    text = re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:***@", text)
    return re.sub(r"(?i)(password=)[^&\s]+", r"\1***", text)


def prepare_file(path: Path, *, create: bool) -> bool:
    """Check a SQLite file before it is opened, make its folder if need be, and tell whether it can be written.

    Raises DatabaseError where it is missing (``create`` false), is a folder, cannot be read, or is no SQLite database.
    """
    try:
        if path.is_dir():
            raise DatabaseError("DB-FILE", f"{path} is a folder", "name a file: sqlite:///FILE")
        if not path.exists():
            if not create:
                raise DatabaseError(
                    "DB-MISSING", f"there is no results database at {path}", f"`advisor --db sqlite:///{path} db upgrade` creates it"
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            if not os.access(path.parent, os.W_OK | os.X_OK):
                raise DatabaseError(
                    "DB-READONLY", f"cannot create {path}: its folder is not writable", "name another with --db sqlite:///FILE"
                )
            return True
        if not path.is_file():
            raise DatabaseError("DB-FILE", f"{path} is no ordinary file", "name another with --db sqlite:///FILE")
        with path.open("rb") as file:
            header = file.read(len(_SQLITE_HEADER))
    except OSError as error:
        raise DatabaseError("DB-FILE", f"cannot open {path}: {error.strerror}", "name another with --db sqlite:///FILE") from error
    if header and header != _SQLITE_HEADER:
        raise DatabaseError("DB-FORMAT", f"{path} is not an SQLite database", "name another with --db sqlite:///FILE")
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def file_system(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """Return the type of the file system that holds ``path`` (``ext4``, ``nfs4`` …), or None where the system does not say."""
    try:
        text = mounts.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    best, kind = "", None
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if not separator or len(fields) < 5 or not tail:
            continue
        # mountinfo escapes blanks, tabs, newlines and backslashes in octal.
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        # Later lines lie on top of earlier ones, so an equal length wins too.
        if len(point) >= len(best) and (point == "/" or path == Path(point) or Path(point) in path.parents):
            best, kind = point, tail[0]
    return kind


def is_network_file_system(kind: str | None) -> bool:
    """Tell whether ``kind`` is shared between hosts, where SQLite must do without its write-ahead log."""
    return kind is not None and (kind in NETWORK_FILE_SYSTEMS or kind.startswith(NETWORK_FUSE))
