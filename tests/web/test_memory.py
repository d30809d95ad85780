"""Dear answers are remembered for a moment, cheap ones never."""

from __future__ import annotations

import pytest

from advisor.usecases.memory import KEPT_S, Memory


def test_only_dear_answers_are_remembered_and_not_for_long() -> None:
    moment = [0.0]
    calls: list[str] = []
    memory = Memory(clock=lambda: moment[0])

    def build(name: str, seconds: float) -> str:
        calls.append(name)
        moment[0] += seconds
        return name

    for _ in range(2):
        assert memory.get("cheap", lambda: build("cheap", 0.01)) == "cheap"
        assert memory.get("dear", lambda: build("dear", 1.0)) == "dear"
    assert calls == ["cheap", "dear", "cheap"]
    moment[0] += KEPT_S
    memory.get("dear", lambda: build("dear", 1.0))
    assert calls[-1] == "dear"


def test_a_failure_is_not_remembered() -> None:
    memory = Memory()

    def fail() -> None:
        raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError):
            memory.get("key", fail)
    assert memory.get("key", lambda: 1) == 1
