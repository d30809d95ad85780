"""Keep what a developer has in ADVISOR_PROFILE_PATH out of the tests."""

from __future__ import annotations

import pytest

from advisor.hardware import load


@pytest.fixture(autouse=True)
def shipped_sheets_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the shipped sheets unless a test names others."""
    monkeypatch.delenv(load.PROFILE_PATH, raising=False)
