"""The kernel's notations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.probe.host._text import format_cpulist, parse_cpulist, parse_cpumap, parse_int, parse_meminfo, parse_size


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3", (0, 1, 2, 3)),
        ("0-1,8,10-11\n", (0, 1, 8, 10, 11)),
        ("5", (5,)),
        ("", ()),
        ("0-3\n\0", (0, 1, 2, 3)),
        ("0-8:2/4", (0, 1, 4, 5, 8)),
        (None, None),
        ("a-b", None),
        ("3-1", None),
        ("0-999999999", None),
        ("0--2", None),
    ],
)
def test_cpulist(text: str | None, cpus: tuple[int, ...] | None) -> None:
    assert parse_cpulist(text) == cpus


def test_bug_69_more_cpus_than_any_fixed_mask() -> None:
    assert parse_cpulist("0-1151") == tuple(range(1152))
    assert parse_cpumap(",".join(["ffffffff"] * 36)) == tuple(range(1152))


@pytest.mark.parametrize(
    ("text", "cpus"), [("f", (0, 1, 2, 3)), ("00000001,00000000", (32,)), ("0", ()), ("xyz", None), ("", None), (None, None)]
)
def test_cpumap(text: str | None, cpus: tuple[int, ...] | None) -> None:
    assert parse_cpumap(text) == cpus


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("32K", 32768),
        ("1024 kB", 1 << 20),
        ("8M", 8 << 20),
        ("65536k", 64 << 20),
        ("17", 17),
        ("4GiB", 4 << 30),
        ("-1", None),
        ("", None),
        (None, None),
    ],
)
def test_size(text: str | None, size: int | None) -> None:
    assert parse_size(text) == size


def test_meminfo_of_the_machine_and_of_a_node() -> None:
    assert parse_meminfo("MemTotal:  16 kB\nHugePages_Total:  3\nbad line\n") == {"MemTotal": 16384, "HugePages_Total": 3}
    assert parse_meminfo("Node 250 MemTotal:   2 kB\n") == {"MemTotal": 2048}


@given(st.sets(st.integers(0, 4000), max_size=60))
def test_a_cpulist_survives_writing_and_reading(cpus: set[int]) -> None:
    ordered = tuple(sorted(cpus))
    assert parse_cpulist(format_cpulist(ordered)) == ordered


@given(st.text(max_size=60))
def test_no_text_makes_a_parser_raise(text: str) -> None:
    for parse in (parse_cpulist, parse_cpumap, parse_size, parse_int, parse_meminfo):
        parse(text)
