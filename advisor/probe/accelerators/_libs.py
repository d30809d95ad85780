"""Whether a shared library can be found, by files alone: nothing is loaded and no child is started."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from advisor.probe.root import Root

FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/run/opengl-driver/lib",
)


def find_library(root: Root, soname: str, extra: Sequence[str] = ()) -> str | None:
    """Return where a library lies (its folder's path, or ``ld.so.cache``), or None.

    ``LD_LIBRARY_PATH`` comes first, as for the loader; ``extra`` are a vendor's own folders.
    """
    for folder in [part for part in root.environ.get("LD_LIBRARY_PATH", "").split(":") if part.startswith("/")]:
        if root.is_live and Path(folder, soname).exists():
            return f"{folder.rstrip('/')}/{soname}"
    for folder in (*extra, *FOLDERS):
        if root.exists(f"{folder}/{soname}"):
            return f"{folder}/{soname}"
    cache = root.text("/etc/ld.so.cache")
    return "/etc/ld.so.cache" if cache is not None and soname in cache else None


def in_packages(root: Root, relative: str) -> str | None:
    """Return where a file lies inside this interpreter's packages (``torch/lib/libamdhip64.so``), or None; never imports."""
    if not root.is_live:
        return None
    for folder in sys.path:
        if folder.endswith("-packages") and Path(folder, relative).exists():
            return str(Path(folder, relative))
    return None
