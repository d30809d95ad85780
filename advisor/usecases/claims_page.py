"""What a page about claims holds: every claim with its newest verdict on this machine, and what was not run."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

from advisor.usecases.claims_run import SCHEMA_VERSION, counts
from advisor.usecases.claims_stored import StoredClaims


def claims_page(*, file: Path | None = None, database_url: str) -> dict[str, Any]:
    """Return the document of a page: the machine, the stored results in the order of the claims, and the ids of those without one."""
    from advisor.claims.library import all_claims
    from advisor.results.rows import iso, now

    claims = all_claims(file)
    stored = StoredClaims(database_url)
    found = {claim.id: stored.newest(claim) for claim in claims.values()}
    results = [result for result in found.values() if result is not None]
    host = stored.machine.host
    return {
        "schema_version": SCHEMA_VERSION,
        "version": importlib.metadata.version("hw-advisor"),
        "created_at": iso(now()),
        "machine": {
            "fingerprint": stored.fingerprint,
            "cpu": host.cpu.model,
            "usable_cpus": host.cpu.usable_cpus,
            "memory_bytes": host.memory.usable_bytes,
            "devices": [{"name": device.name, "target": device.target, "state": device.state} for device in stored.machine.devices],
        },
        "results": results,
        "not_run": [name for name, result in found.items() if result is None],
        "counts": counts(results),
        "seconds": sum(float(result.get("seconds") or 0) for result in results),
    }


def default_page() -> Path:
    """Return where a run leaves its page unless it is told another place."""
    from advisor.resources import user_data_dir

    return user_data_dir() / "claims" / "report.html"
