"""Sheets are held in memory by folder; a test that changes folders or files starts and ends without them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from advisor.hardware import load


@pytest.fixture(autouse=True)
def fresh_catalog(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep what a developer has in ADVISOR_PROFILE_PATH out of the tests."""
    monkeypatch.delenv(load.PROFILE_PATH, raising=False)
    yield
    load.forget()
