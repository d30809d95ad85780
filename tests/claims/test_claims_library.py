"""Every shipped claim loads and can be tested; wrong files give one clear line."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from advisor.claims.library import all_claims, experiments, read_claims, shipped
from advisor.claims.networks import NETWORKS, backend_of
from advisor.errors import AdvisorError
from advisor.results.published import KINDS

GOOD = """
claims:
  - id: mine
    statement: memory-mapped is faster
    metric: throughput_ratio
    value: 1.2
    source: me
    tests:
      - experiment: autoscale
        parameters: {loads: [{label: flat, floor: 1.0, sharpness: 1.0}]}
"""


def test_every_shipped_claim_has_a_test_or_says_why_not() -> None:
    claims = shipped()
    assert len({claim.id for claim in claims}) == len(claims) == 43
    for claim in claims:
        assert claim.tests or claim.needs or claim.premise, claim.id
        assert claim.source
        assert claim.low <= claim.high


def test_what_tests_name_exists() -> None:
    known = experiments()
    for claim in shipped():
        for test in claim.tests:
            assert test.experiment in known
            for side in (test.parameters.get("a"), test.parameters.get("b"), *test.parameters.get("cases", ())):
                name = (side or {}).get("network")
                assert name is None or name in NETWORKS, (claim.id, name)
                backend = backend_of((side or {}).get("backend") or "")
                assert not backend.endswith(".py") or Path(backend).is_file(), (claim.id, backend)
            if "child" in test.parameters:
                assert importlib.util.find_spec(f"advisor.claims.children.{test.parameters['child']}"), claim.id
            if test.experiment == "published":
                assert test.parameters["kind"] in KINDS


def test_a_users_file_adds_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD + GOOD.split("claims:\n")[1].replace("id: mine", "id: snn-1000x"))
    claims = all_claims(path)
    assert len(claims) == 44
    assert claims["snn-1000x"].source == "me"


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "claims: []",
        "just text",
        GOOD.replace("value: 1.2", "value: fast"),
        GOOD.replace("value: 1.2", "value: -1"),
        GOOD.replace("    value: 1.2\n", ""),
        GOOD.replace("value: 1.2", "low: 3\n    high: 2"),
        GOOD.replace("source: me", "colour: red"),
        GOOD.replace("    source: me\n", ""),
        GOOD.replace("experiment: autoscale", "experiment: autoscal"),
        GOOD.replace("loads:", "load:"),
        GOOD.replace("source: me", "source: me\n    premise: ill_posed"),
        GOOD.replace("source: me", "source: me\n    holds: maybe"),
        GOOD.replace("source: me", "source: me\n    advice: {never: no}"),
        GOOD + GOOD.split("claims:\n")[1],
        "claims: [3]",
        "claims: [",
    ],
)
def test_wrong_files_give_one_line(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(wrong)
    with pytest.raises(AdvisorError) as caught:
        read_claims(path)
    assert caught.value.exit_status == 2
    assert "\n" not in caught.value.line()
