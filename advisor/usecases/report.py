"""What a report holds: the last answer (or one by a plan's id), this machine, or both."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

from advisor.errors import UsageError
from advisor.resources import written_whole
from advisor.results.rows import iso, now
from advisor.results.store import Store
from advisor.usecases.explain import formulas

SCHEMA_VERSION = 1
SUBJECTS = ("auto", "machine", "recommendation")


def report(database_url: str, subject: str = "auto", plan_id: str | None = None) -> dict[str, Any]:
    """Return a report's document: ``recommendation`` and ``machine``, null where the subject leaves one out.

    ``auto`` is the newest answer, with this machine where the answer is about it; this machine alone where nothing was asked yet.
    ``plan_id`` names an earlier answer. UsageError where it is unknown, or where an answer is wanted and there is none.
    """
    with Store.open(database_url) as store:
        answer = None if subject == "machine" else _answer(store, plan_id)
        if answer is None and subject == "recommendation":
            raise UsageError("nothing was recommended yet", "advisor recommend --model gpt-13b", code="NO-ANSWER")
        local = answer is None or answer["hardware"]["name"] == "local" or answer["assumed"].get("hardware") == "local"
        machine = _machine(store) if subject != "recommendation" and local else None
    return {
        "schema_version": SCHEMA_VERSION,
        "version": importlib.metadata.version("hw-advisor"),
        "created_at": iso(now()),
        "recommendation": answer,
        "machine": machine,
    }


def _answer(store: Store, plan_id: str | None) -> dict[str, Any] | None:
    if plan_id is None:
        latest = store.latest_recommendation()
        document = None if latest is None else latest["document"]
    else:
        found = store.find_plan(plan_id.strip())
        if found is None:
            raise UsageError(f"no stored answer has the plan {plan_id!r}", "`advisor recommend` prints the ids it stores", "UNKNOWN-PLAN")
        document = found["recommendation"]["document"]
    if document is None:
        return None
    best = document["recommendation"]
    return document | {"formulas": formulas(document, best["plan"], best["estimate"]) if best else []}


def _machine(store: Store) -> dict[str, Any]:
    from advisor.report.probe import verdict
    from advisor.usecases.browse import machine as stored
    from advisor.usecases.probe import probe

    document = probe(save=False).to_dict()
    identifier = store.save_machine(document) if not store.read_only else None
    known = stored(store, document["fingerprint"]) if identifier is not None else None
    return {
        "verdict": verdict(document),
        "document": document,
        "rooflines": known["rooflines"] if known is not None else {},
        "best": known["best"] if known is not None else [],
    }


def write_file(path: Path, text: str) -> int:
    """Write ``text`` so that the file is there whole or not at all; return its size in bytes. UsageError where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as part:
            part.write_text(text, encoding="utf-8")
        return path.stat().st_size
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "name a file in a folder that can be written") from error
