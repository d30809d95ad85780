"""What people write after --hardware, and what is refused with one clear line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.errors import UnknownName, UsageError
from advisor.hardware import load
from advisor.hardware.spec import MAX_DEVICES, Term, parse_spec

IDS = sorted(load.all_profiles())
SYSTEM_IDS = sorted(load.all_systems())


@pytest.mark.parametrize(
    ("text", "profile", "nodes", "each", "devices", "system"),
    [
        ("64xa100-sxm4-80gb", "a100-sxm4-80gb", 8, 8, 64, "dgx-a100-80gb"),
        ("8x8xh100-sxm5-80gb", "h100-sxm5-80gb", 8, 8, 64, "dgx-h100"),
        ("8x4xh100", "h100-sxm5-80gb", 8, 4, 32, "dgx-h100"),
        ("1xa100-sxm4-80gb", "a100-sxm4-80gb", 1, 1, 1, "dgx-a100-80gb"),
        ("a100", "a100-sxm4-80gb", 1, 1, 1, "dgx-a100-80gb"),
        ("12xh100", "h100-sxm5-80gb", 2, 6, 12, "dgx-h100"),
        ("11xh100", "h100-sxm5-80gb", 2, 8, 11, "dgx-h100"),
        ("16xv100-sxm3-32gb", "v100-sxm3-32gb", 1, 16, 16, "dgx-2"),
        ("72xgb200", "gb200", 18, 4, 72, "gb200-nvl72"),
        ("8xmi250x", "mi250x", 1, 8, 8, "mi250x-node"),
        ("8xNVIDIA A100-SXM4-80GB", "a100-sxm4-80gb", 1, 8, 8, "dgx-a100-80gb"),
        ("2xrtx 4090", "rtx-4090", 1, 2, 2, "rtx-4090-server"),
        ("8 x NVIDIA GeForce RTX 4090", "rtx-4090", 1, 8, 8, "rtx-4090-server"),
        ("max 1550", "max-1550", 1, 1, 1, "max-1550-node"),
        ("4xmax 1550", "max-1550", 1, 4, 4, "max-1550-node"),
        ("tpu-v5p-128", "tpu-v5p", 16, 4, 64, "tpu-v5p-slice"),
        ("v4-256", "tpu-v4", 32, 4, 128, "tpu-v4-slice"),
        ("TPU v4-8", "tpu-v4", 1, 4, 4, "tpu-v4-slice"),
        ("v3-8", "tpu-v3", 1, 4, 4, None),
        ("v5litepod-8", "tpu-v5e", 1, 8, 8, "tpu-v5e-slice"),
        ("v5e-16", "tpu-v5e", 2, 8, 16, "tpu-v5e-slice"),
        ("v6e-8", "tpu-v6e", 1, 8, 8, "tpu-v6e-slice"),
        ("64xtpu-v5p", "tpu-v5p", 16, 4, 64, "tpu-v5p-slice"),
        ("4xdgx-a100-80gb", "a100-sxm4-80gb", 4, 8, 32, "dgx-a100-80gb"),
        ("dgx-h100", "h100-sxm5-80gb", 1, 8, 8, "dgx-h100"),
        ("2xp4d.24xlarge", "a100-sxm4-40gb", 2, 8, 16, "p4d-24xlarge"),
        ("16xa100-40gb@p4d", "a100-sxm4-40gb", 2, 8, 16, "p4d-24xlarge"),
        ("2x4xa100-40gb@p4d", "a100-sxm4-40gb", 2, 4, 8, "p4d-24xlarge"),
        ("16xl40", "l40", 2, 8, 16, None),
        ("Intel(R) Xeon(R) Platinum 8480+", "xeon-platinum-8480plus", 1, 1, 1, None),
        ("8×t4", "t4", 2, 4, 8, "t4-server"),
    ],
)
def test_one_term(text: str, profile: str, nodes: int, each: int, devices: int, system: str | None) -> None:
    (term,) = parse_spec(text)
    found = (term.profile.id, term.nodes, term.devices_per_node, term.devices, term.system.id if term.system else None)
    assert found == (profile, nodes, each, devices, system)


def test_several_terms() -> None:
    terms = parse_spec("8xa100-sxm4-80gb+16xh100")
    assert [(t.profile.id, t.devices) for t in terms] == [("a100-sxm4-80gb", 8), ("h100-sxm5-80gb", 16)]


def test_a_plus_in_a_name_is_part_of_it() -> None:
    terms = parse_spec("2xIntel(R) Xeon(R) Platinum 8480++4xt4")
    assert [(t.profile.id, t.devices) for t in terms] == [("xeon-platinum-8480plus", 2), ("t4", 4)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "+",
        "8xa100+",
        "+8xa100",
        "0xa100-sxm4-80gb",
        "-3xa100-sxm4-80gb",
        "+3xa100",
        "1.5xt4",
        "1e3xt4",
        "1_000xt4",
        "٣xt4",
        "8x",
        "8x8x",
        "x",
        "xa100",
        "8x8x8xa100",
        "64xzz9000",
        "1000001xa100",
        "99999999999999999999999999xa100",
        "1001x1000xa100",
        "a100@",
        "@dgx-a100",
        "8xa100@dgx-h100",
        "8xa100@nowhere",
        "8x16xa100",
        "4x8xdgx-a100",
        "v4-255",
        "v5p-0",
        "3xv4-8",
        "v9-8",
        "1000000xa100+1xa100",
        "local+a100",
        "a100" * 2000,
        "a100+" * 70,
        "\0",
        "8xa100\nrm",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises((UsageError, UnknownName)) as caught:
        parse_spec(text)
    line = caught.value.line()
    assert line.startswith("error[")
    assert "\n" not in line


def test_hints_say_what_to_write() -> None:
    with pytest.raises(UsageError) as caught:
        parse_spec("v4-255")
    assert caught.value.hint == "write v4-256"
    with pytest.raises(UnknownName) as unknown:
        parse_spec("8xa1000")
    assert "did you mean" in unknown.value.line()


def same(a: Term, b: Term) -> bool:
    return (a.profile.id, a.nodes, a.devices_per_node, a.devices, a.system) == (
        b.profile.id,
        b.nodes,
        b.devices_per_node,
        b.devices,
        b.system,
    )


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(IDS), st.integers(1, 5000))
def test_counts_are_filled_into_nodes_and_labels_parse_back(identity: str, count: int) -> None:
    (term,) = parse_spec(f"{count}x{identity}")
    assert term.devices == count
    assert (term.nodes - 1) * term.devices_per_node < count <= term.nodes * term.devices_per_node
    if term.system is not None:
        assert term.devices_per_node <= term.system.devices_per_node
        assert term.nodes == -(-count // term.system.devices_per_node), "no more nodes than needed"
    (again,) = parse_spec(term.label)
    assert same(term, again)
    assert again.label == term.label


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(SYSTEM_IDS), st.integers(1, 300), st.integers(1, 16))
def test_grids_and_systems_parse_back(identity: str, nodes: int, each: int) -> None:
    system = load.all_systems()[identity]
    (whole,) = parse_spec(f"{nodes}x{identity}")
    assert (whole.nodes, whole.devices) == (nodes, nodes * system.devices_per_node)
    assert same(whole, parse_spec(whole.label)[0])
    text = f"{nodes}x{each}x{system.device}@{identity}"
    if each <= system.devices_per_node:
        (part,) = parse_spec(text)
        assert (part.nodes, part.devices_per_node, part.system) == (nodes, each, system)
        assert same(part, parse_spec(part.label)[0])
    else:
        with pytest.raises(UsageError, match="holds"):
            parse_spec(text)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(IDS), st.integers(1, 64)), min_size=2, max_size=5))
def test_joined_terms_parse_back(parts: list[tuple[str, int]]) -> None:
    text = "+".join(f"{count}x{identity}" for identity, count in parts)
    terms = parse_spec(text)
    assert [(t.profile.id, t.devices) for t in terms] == parts
    assert all(same(a, b) for a, b in zip(terms, parse_spec("+".join(t.label for t in terms)), strict=True))


@settings(deadline=None, max_examples=400)
@given(st.text(alphabet="0123456789xX×@+-. abhvptuegn()", max_size=30) | st.text(max_size=20))
def test_any_text_gives_terms_or_one_line(text: str) -> None:
    try:
        terms = parse_spec(text)
    except (UsageError, UnknownName) as error:
        line = error.line()
    else:
        line = "answered"
        assert 1 <= sum(t.devices for t in terms) <= MAX_DEVICES
    assert "\n" not in line
