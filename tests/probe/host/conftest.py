"""A folder that stands for a machine, written file by file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.probe.root import Root

Tree = dict[str, str]


@pytest.fixture
def machine(tmp_path: Path) -> Callable[[Tree], Root]:
    """Return a function that writes files (path from / to text) and returns the root of the machine they make."""
    count = 0

    def write(files: Tree, environ: dict[str, str] | None = None) -> Root:
        nonlocal count
        count += 1
        base = tmp_path / f"machine{count}"
        base.mkdir()
        for name, text in files.items():
            path = base / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Root(base, environ or {})

    return write
