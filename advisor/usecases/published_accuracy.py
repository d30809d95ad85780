"""Predicted against measured for the published rows, worked out once in the background and kept in a file until the product changes."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from advisor.resources import data_dir, user_data_dir

SCHEMA_VERSION = 1
#: Points of one kind that a picture shows; every n-th of the rows, so that it is the same each time.
MOST_POINTS = 1_200


class PublishedAccuracy:
    """The scores of ``validate`` on the shipped tables. ``get`` never waits: the first call starts the work."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or user_data_dir() / "cache"
        self._lock = threading.Lock()
        self._document: dict[str, Any] | None = None
        self._started: float | None = None
        self._failure: str | None = None

    def get(self) -> dict[str, Any]:
        """Return the document with ``state`` ``ready``, ``working`` (with ``seconds`` so far) or ``failed`` (with ``reason``)."""
        with self._lock:
            if self._document is None and self._started is None:
                self._document = self._read()
                if self._document is None:
                    self._started = time.monotonic()
                    threading.Thread(target=self._work, name="accuracy", daemon=True).start()
            if self._document is not None:
                return {"schema_version": SCHEMA_VERSION, "state": "ready", **self._document}
            if self._failure is not None:
                return {"schema_version": SCHEMA_VERSION, "state": "failed", "reason": self._failure, "kinds": {}}
            seconds = round(time.monotonic() - (self._started or 0.0), 1)
            return {"schema_version": SCHEMA_VERSION, "state": "working", "seconds": seconds, "kinds": {}}

    def _work(self) -> None:
        try:
            document = score()
        except Exception as error:  # noqa: BLE001 - a thread's failure must reach the page that waits for it
            with self._lock:
                self._failure = f"{type(error).__name__}: {error}"
            return
        self._write(document)
        with self._lock:
            self._document = document

    def _path(self) -> Path:
        return self._folder / f"accuracy-{stamp()}.json"

    def _read(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._path().read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found

    def _write(self, document: dict[str, Any]) -> None:
        part = self._path().with_suffix(f".{os.getpid()}.part")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(document), encoding="utf-8")
            part.replace(self._path())
        except OSError:
            # Without the file the next start works it out again, that is all.
            part.unlink(missing_ok=True)


def stamp() -> str:
    """Return a hash of what the scores depend on: the version, the published tables, the calibration."""
    digest = hashlib.sha256(importlib.metadata.version("hw-advisor").encode())
    for file in sorted([*(data_dir("db") / "published").glob("*.csv"), *(data_dir("db") / "calibration").glob("*.json")]):
        digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def score() -> dict[str, Any]:
    """Return validate's document by kind, with a sample of the predictions as ``points``."""
    from advisor.usecases.validate import validate

    kinds = {}
    for kind, document in validate(rows=True)["kinds"].items():
        rows = [row for row in document.pop("predictions") if row["quantity"] == "time" and row["predicted"] and not row["assumed"]]
        step = max(1, -(-len(rows) // MOST_POINTS))
        keys = ("id", "group", "hardware", "measured", "predicted", "low", "high")
        kinds[kind] = document | {"points": [{key: row[key] for key in keys} for row in rows[::step]], "point_step": step}
    return {"kinds": kinds}
