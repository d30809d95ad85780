"""The two homes of the results: an SQLite file, and a PostgreSQL that is started for the yardstick and removed after it."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("sqlite", "postgresql")


def _test_support() -> Any:
    spec = importlib.util.spec_from_file_location("advisor_test_support", ROOT / "tests" / "conftest.py")
    if spec is None or spec.loader is None:
        raise SystemExit("tests/conftest.py is not there")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def home(kind: str) -> Iterator[str]:
    """Give the URL of an empty database of ``kind``, as durable as in use; it is gone afterwards."""
    if kind == "sqlite":
        folder = Path(tempfile.mkdtemp(prefix="advisor-yardstick-"))
        try:
            yield f"sqlite:///{folder / 'results.db'}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    with _test_support().running_postgresql("shared_buffers=512MB") as url:
        yield url
