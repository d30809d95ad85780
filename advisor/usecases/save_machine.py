"""Store a probed machine, cheaply: opening the database takes longer than the whole probe, so an unchanged machine is not stored again."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from advisor.errors import AdvisorError
from advisor.resources import user_data_dir

#: How long a stored machine counts as just seen; after that it is stored again, which renews when it was last seen.
FRESH_S = 3600.0

#: Findings about the moment, not the machine: they are shown, and not stored.
MOMENTARY_FINDINGS = frozenset({"LOAD_HIGH", "MEMORY_BUSY", "DISK_LOW"})


def save_machine(document: dict[str, Any], url: str) -> bool:
    """Store a machine's document in the database at ``url`` and return whether it is there.

    A database that cannot be written costs a warning on standard error, not the answer.
    """
    from advisor.results.address import parse_url
    from advisor.results.machines import machine_row

    document = {**document, "findings": [finding for finding in document["findings"] if finding["code"] not in MOMENTARY_FINDINGS]}
    try:
        identity = str(machine_row(document, origin="local")["id"])
        file = parse_url(url).path
        if file is not None and _stored(file, identity):
            return True
        from advisor.results.store import Store

        with Store.open(url) as store:
            store.save_machine(document)
    except AdvisorError as error:
        sys.stderr.write(f"warning[NOT-SAVED]: the machine was not saved: {error.line()}\n")
        return False
    if file is not None:
        _remember(file, identity)
    return True


def _note() -> Path:
    return user_data_dir() / "cache" / "saved-machine.json"


def _stored(file: Path, identity: str) -> bool:
    """Tell whether this very file got this very machine within the last hour."""
    try:
        noted = json.loads(_note().read_text(encoding="utf-8"))
        status = file.stat()
    except (OSError, ValueError):
        return False
    wanted = {"file": str(file), "inode": status.st_ino, "machine": identity}
    if not isinstance(noted, dict) or any(noted.get(key) != value for key, value in wanted.items()):
        return False
    age = time.time() - noted["at"] if isinstance(noted.get("at"), int | float) else FRESH_S
    return 0 <= age < FRESH_S


def _remember(file: Path, identity: str) -> None:
    note = _note()
    temporary = note.with_name(f"{note.name}.{os.getpid()}")
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(
            json.dumps({"file": str(file), "inode": file.stat().st_ino, "machine": identity, "at": time.time()}), encoding="utf-8"
        )
        os.replace(temporary, note)
    except OSError:
        # Without the note the next probe only stores the machine once more.
        return
