"""Numbers as people read them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.units import format_energy, format_seconds


@given(st.floats(min_value=1e-9, max_value=1e7))
def test_a_duration_is_written_without_an_exponent_and_read_back(seconds: float) -> None:
    found = re.fullmatch(r"([\d.]+(?:e-\d+)?) (µs|ms|s|min|h|days)", format_seconds(seconds))
    assert found is not None
    assert "e+" not in found[1]
    factor = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "days": 86400.0}[found[2]]
    assert float(found[1]) * factor == pytest.approx(seconds, rel=0.006)


@pytest.mark.parametrize(("joules", "text"), [(0.0214, "21.4 mJ"), (7.0, "7.0 J"), (148_800.0, "148.8 kJ"), (3.2e9, "3.2 GJ")])
def test_an_energy_has_the_unit_that_keeps_it_short(joules: float, text: str) -> None:
    assert format_energy(joules) == text
