"""Store a probed machine, cheaply.

Loading the database layer takes longer than the whole probe, so a machine that was stored just now and has not changed is not stored again.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from advisor.errors import AdvisorError

#: How long a stored machine counts as just seen; after that it is stored again, which renews when it was last seen.
FRESH = timedelta(hours=1)

#: Findings about the moment, not the machine: they are shown, and not stored.
MOMENTARY_FINDINGS = frozenset({"LOAD_HIGH", "MEMORY_BUSY", "DISK_LOW", "THROTTLED_NOW"})

# By Python's own sqlite3, which loads in milliseconds; writing goes through the Store alone.
_LAST_SEEN = "SELECT id, last_seen_at FROM machines WHERE origin = 'local' ORDER BY last_seen_at DESC LIMIT 1"


def save_machine(document: dict[str, Any], url: str) -> bool:
    """Store a machine's document in the database at ``url`` and return whether it is there.

    A database that cannot be written costs a warning on standard error, not the answer.
    """
    from advisor.results.address import parse_url
    from advisor.results.machines import machine_row

    document = {**document, "findings": [finding for finding in document["findings"] if finding["code"] not in MOMENTARY_FINDINGS]}
    try:
        file = parse_url(url).path
        if file is not None and just_seen(file, str(machine_row(document, origin="local")["id"])):
            return True
        from advisor.results.store import Store

        with Store.open(url) as store:
            store.save_machine(document)
    except AdvisorError as error:
        sys.stderr.write(f"warning[NOT-SAVED]: the machine was not saved: {error.line()}\n")
        return False
    return True


def just_seen(file: Path, identity: str) -> bool:
    """Tell whether the machine that an SQLite file saw last is this one, within the last hour; False where that cannot be told."""
    import sqlite3

    try:
        if not file.is_file():
            return False
        connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=0.2)
        try:
            row = connection.execute(_LAST_SEEN).fetchone()
        finally:
            connection.close()
        if row is None or str(row[0]).replace("-", "") != identity.replace("-", ""):
            return False
        seen = datetime.fromisoformat(str(row[1]))
    except (OSError, sqlite3.Error, ValueError):
        return False
    seen = seen if seen.tzinfo is not None else seen.replace(tzinfo=UTC)
    return timedelta(0) <= datetime.now(UTC) - seen < FRESH
