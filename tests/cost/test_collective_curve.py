"""Collectives: bus bandwidth, tiers, strides, laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cost.kernels import collective
from advisor.hardware.platform import NetworkTier
from advisor.usecases.calibration import load_calibration

INSIDE = NetworkTier(name="node", kind="nvswitch", group=8, bandwidth_bytes_per_s=300e9, latency_s=2e-6)
BETWEEN = NetworkTier(name="network", kind="ib", group=64, bandwidth_bytes_per_s=25e9, latency_s=4e-6)
TIERS = (INSIDE, BETWEEN)
OPS = st.sampled_from(collective.OPERATIONS)


def parameters() -> collective.CollectiveParameters:
    return collective.parameters(load_calibration(), "ampere")


@settings(max_examples=60, deadline=None)
@given(op=OPS, size=st.floats(1, 1e10), more=st.floats(1.0, 100.0), group=st.integers(2, 64), stride=st.sampled_from([1, 2, 4, 8]))
def test_more_bytes_are_never_faster(op: str, size: float, more: float, group: int, stride: int) -> None:
    p = parameters()
    small, large = (collective.seconds(p, op, s, group, TIERS, stride=stride) for s in (size, size * more))
    assert 0 < small <= large * (1 + 1e-9)
    assert np.isfinite(large)


@settings(max_examples=40, deadline=None)
@given(op=OPS, size=st.floats(1, 1e10), group=st.integers(2, 64), tier=st.sampled_from([0, 1]), factor=st.floats(1.0, 10.0))
def test_a_faster_network_is_never_slower(op: str, size: float, group: int, tier: int, factor: float) -> None:
    p = parameters()
    better = [*TIERS]
    better[tier] = replace(TIERS[tier], bandwidth_bytes_per_s=TIERS[tier].bandwidth_bytes_per_s * factor)
    assert collective.seconds(p, op, size, group, better) <= collective.seconds(p, op, size, group, TIERS) * (1 + 1e-9)


def test_nothing_to_send_and_nobody_to_send_to() -> None:
    out = collective.seconds(parameters(), "all_reduce", [0, 1e6, 1e6], [8, 1, 2], TIERS)
    assert out[0] == 0
    assert out[1] == 0
    assert out[2] > 0


def test_long_all_reduce_reaches_the_bus_bandwidth_of_its_link() -> None:
    size = 4e9
    busbw = 2 * 7 / 8 * size / collective.seconds(parameters(), "all_reduce", size, 8, TIERS)
    assert 0.7 * 300e9 < busbw < 300e9


def test_all_gather_moves_half_of_an_all_reduce() -> None:
    p = parameters()
    ratio = collective.seconds(p, "all_gather", 4e9, 8, TIERS) / collective.seconds(p, "all_reduce", 4e9, 8, TIERS)
    assert 0.4 < ratio < 0.7


def test_across_nodes_is_slower_and_members_spread_out_use_the_network_alone() -> None:
    p = parameters()
    inside = collective.seconds(p, "all_reduce", 1e9, 8, TIERS)
    packed = collective.seconds(p, "all_reduce", 1e9, 16, TIERS)
    spread = collective.seconds(p, "all_reduce", 1e9, 8, TIERS, stride=8)
    assert inside < packed < spread


def test_latency_grows_with_the_group() -> None:
    p = parameters()
    times = collective.seconds(p, "all_reduce", 1024, [2, 4, 8, 16, 64], TIERS)
    assert (np.diff(times) > 0).all()


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown collective"):
        collective.seconds(parameters(), "gossip", 1.0, 2, TIERS)


@pytest.mark.parametrize(("kind", "expected"), [("nvlink4", "nvlink"), ("xgmi", "xgmi"), ("pcie", "pcie"), ("ici", "torus"), ("hdr", "ib")])
def test_links_are_classed_by_their_kind(kind: str, expected: str) -> None:
    assert collective.kind_of(replace(INSIDE, kind=kind, name="tier")) == expected


def test_devices_on_pcie_share_it() -> None:
    tier = NetworkTier(name="node", kind="pcie", group=8, bandwidth_bytes_per_s=32e9, latency_s=2.5e-6)
    two, eight = collective.seconds(parameters(), "all_reduce", 1e9, [2, 8], [tier])
    assert eight > 5 * two
