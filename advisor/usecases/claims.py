"""List and show claims with what came out of them here and on other machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.claims.records import Claim
from advisor.errors import UnknownName
from advisor.usecases.claims_stored import StoredClaims

SCHEMA_VERSION = 1


def list_claims(*, file: Path | None = None, database_url: str) -> dict[str, Any]:
    """Return every claim with its newest result on this machine (nulls where it was not run), and those on other machines."""
    from advisor.claims.library import all_claims, experiments

    claims = all_claims(file)
    stored = StoredClaims(database_url)
    return {
        "schema_version": SCHEMA_VERSION,
        "machine": stored.fingerprint,
        "claims": [_row(claim, stored.newest(claim), stored.others(claim)) for claim in claims.values()],
        "experiments": [{"name": e.name, "title": e.title, "basis": e.basis} for e in experiments().values()],
    }


def show_claim(name: str, *, file: Path | None = None, database_url: str) -> dict[str, Any]:
    """Return one claim whole with its newest result on this machine (``result`` is null where it was not run) and on others."""
    from advisor.claims.library import all_claims

    claims = all_claims(file)
    if name not in claims:
        raise UnknownName("claim", name, claims, "advisor claims list")
    stored = StoredClaims(database_url)
    return {
        "schema_version": SCHEMA_VERSION,
        "claim": claims[name].to_dict(),
        "result": stored.newest(claims[name]),
        "elsewhere": [_found(result) for result in stored.others(claims[name])],
    }


def _row(claim: Claim, result: Mapping[str, Any] | None, others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    own = {name: getattr(claim, name) for name in ("id", "statement", "metric", "unit", "low", "high", "holds", "tolerance", "source")}
    names = ("verdict", "basis", "value", "reason", "measured_at")
    found = {name: result[name] if result else None for name in names}
    return {
        **own,
        "tests": [test.experiment for test in claim.tests],
        **found,
        "interval": [result["low"], result["high"]] if result else None,
        "elsewhere": [_found(other) for other in others],
    }


def _found(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what came out on another machine, in short."""
    names = ("machine", "verdict", "basis", "value", "low", "high", "measured_at", "measurement")
    return {name: result[name] for name in names}
