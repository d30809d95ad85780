"""The known failures of tools that detect hardware are numbered 1 to 94; each must have a test that carries its number.

A test says so in its name: ``test_b12_…``, ``test_b33_b34_…``, ``test_bug_7_and_83_…``.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
CASES = 94


def numbers(name: str) -> set[int]:
    """Return the cases that a test's name carries."""
    match = re.match(r"test_(?:bug_((?:\d+_and_)*\d+)_|((?:b\d+_)+))", name)
    return {int(number) for number in re.findall(r"\d+", match[0])} if match else set()


def test_names_are_read() -> None:
    assert numbers("test_bug_7_and_83_gpu_memory") == {7, 83}
    assert numbers("test_b33_b34_partitions_of_8") == {33, 34}
    assert numbers("test_64_gpus_answer") == set()


def test_every_case_is_covered_by_number() -> None:
    covered: dict[int, list[str]] = {}
    for path in HERE.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                for number in numbers(node.name):
                    covered.setdefault(number, []).append(node.name)
    assert [number for number in range(1, CASES + 1) if number not in covered] == []
    assert [number for number in covered if not 1 <= number <= CASES] == []
