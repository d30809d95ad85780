"""The reference page of findings is made from the source, whole and up to date."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.probe.findings._catalogue import catalogue, page

PROJECT = Path(__file__).resolve().parents[2]


def test_the_page_is_up_to_date() -> None:
    stored = (PROJECT / "docs" / "reference" / "findings.md").read_text(encoding="utf-8")
    assert stored == page(), "run `python -m advisor.probe.findings._catalogue > docs/reference/findings.md`"


def test_there_are_more_than_thirty_and_each_says_something() -> None:
    entries = catalogue()
    assert len(entries) >= 30
    assert len({entry.code for entry in entries}) == len(entries)
    for entry in entries:
        assert re.fullmatch(r"[A-Z][A-Z0-9_]+", entry.code)
        assert set(entry.severity.split(" or ")) <= {"error", "warning", "info"}
        assert len(entry.message) > 10
        assert entry.fix


def test_no_code_that_stands_in_the_source_is_missing() -> None:
    """Every constant given as a code, by whatever way of writing, is in the catalogue."""
    source = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("findings", "accelerators")
        for path in (PROJECT / "advisor/probe" / folder).glob("*.py")
    )
    written = set(re.findall(r'\bcode(?:, severity)? ?= ?"([A-Z][A-Z0-9_]+)"', source))
    assert written <= {entry.code for entry in catalogue()}
    assert {"GPU_LOST", "NCCL_P2P_DISABLE", "NOUVEAU_BOUND"} <= {entry.code for entry in catalogue()}
