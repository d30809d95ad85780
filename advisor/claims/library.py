"""Read claims from YAML, those that ship with the product and the user's own; every mistake names the claim and the field."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.claims.records import VERDICTS, Claim, ClaimTest, Experiment
from advisor.errors import UnknownName, UsageError

DATA = Path(__file__).parent / "data"
#: Relative tolerance where a claim names none: articles state such numbers to one digit.
DEFAULT_TOLERANCE = 0.15
#: Quantities of which less is better; of all others more is.
LESS_IS_BETTER = ("latency", "size", "memory", "energy_per", "cost", "comm", "accuracy_drop", "error")

_FIELDS = {"id", "statement", "metric", "value", "low", "high", "unit", "holds", "tolerance", "conditions", "source", "tests",
           "premise", "why", "needs", "advice"}  # fmt: skip
_TEST_FIELDS = {"experiment", "parameters", "differs", "part"}
_PART_FIELDS = {"metric", "value", "low", "high", "unit", "holds", "tolerance"}


def experiments() -> dict[str, Experiment]:
    """Return every kind of experiment by name."""
    from advisor.plugins import discover

    return {part.name: part for part in discover("advisor.claims.experiments", "EXPERIMENT")}


def shipped() -> tuple[Claim, ...]:
    """Return the claims that ship with the product."""
    return tuple(claim for path in sorted(DATA.glob("*.yaml")) for claim in read_claims(path))


def all_claims(file: Path | None = None) -> dict[str, Claim]:
    """Return the shipped claims and those of ``file`` by id; a user's claim replaces a shipped one of its id."""
    claims = {claim.id: claim for claim in shipped()}
    claims.update({claim.id: claim for claim in (read_claims(file) if file is not None else ())})
    return claims


def read_claims(path: Path) -> tuple[Claim, ...]:
    """Return the claims of a YAML file: a list of them, or a mapping with ``claims`` and a common ``source``."""
    from advisor.yamlio import read_yaml

    document = read_yaml(path)
    common = {}
    if isinstance(document, dict):
        common = {"source": document.get("source")} if document.get("source") else {}
        document = document.get("claims")
    if not isinstance(document, list) or not document:
        raise UsageError(f"{path} holds no claims", "a list of claims, or a mapping with `claims`, is expected", code="NOT-CLAIMS")
    known = experiments()
    found = tuple(_claim(item, common, f"{path}, claim {number}", known) for number, item in enumerate(document, 1))
    ids = [claim.id for claim in found]
    twice = next((name for name in ids if ids.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{path}: claim {twice!r} stands there twice", code="BAD-CLAIM")
    return found


def _claim(item: Any, common: Mapping[str, Any], where: str, known: Mapping[str, Experiment]) -> Claim:
    if not isinstance(item, dict):
        raise UsageError(f"{where}: a claim is a mapping", code="BAD-CLAIM")
    fields = {**common, **item}
    where = f"{where} ({fields['id']})" if isinstance(fields.get("id"), str) else where
    unknown = sorted(map(str, set(fields) - _FIELDS))
    if unknown:
        raise UsageError(f"{where}: unknown field {unknown[0]!r}", f"fields are {', '.join(sorted(_FIELDS))}", code="BAD-CLAIM")
    texts = {name: _text(fields, name, where) for name in ("id", "statement", "metric", "source")}
    low, high = _range(fields, where)
    premise = fields.get("premise")
    if premise is not None and (premise not in VERDICTS or not fields.get("why")):
        raise UsageError(f"{where}: premise is ill_posed or not_testable, with a `why`", code="BAD-CLAIM")
    tests = fields.get("tests") or []
    if not isinstance(tests, list) or (not tests and premise is None and not fields.get("needs")):
        raise UsageError(f"{where}: tests is a list of experiments", "or `needs` says what a test would take", code="BAD-CLAIM")
    advice = fields.get("advice") or {}
    if not isinstance(advice, dict) or not set(advice) <= set(VERDICTS):
        raise UsageError(f"{where}: advice maps verdicts to sentences", code="BAD-CLAIM")
    return Claim(
        **texts,
        low=low,
        high=high,
        unit=str(fields.get("unit") or "ratio"),
        holds=_holds(fields, texts["metric"], where),
        tolerance=_number(fields.get("tolerance", DEFAULT_TOLERANCE), "tolerance", where),
        conditions=str(fields.get("conditions") or ""),
        tests=tuple(_test(test, where, known) for test in tests),
        premise=premise,
        why=fields.get("why"),
        needs=fields.get("needs"),
        advice={str(key): str(value) for key, value in advice.items()},
    )


def _test(test: Any, where: str, known: Mapping[str, Experiment]) -> ClaimTest:
    if not isinstance(test, dict) or not isinstance(test.get("experiment"), str) or set(test) - _TEST_FIELDS:
        raise UsageError(f"{where}: a test has experiment, parameters and perhaps differs", code="BAD-CLAIM")
    name, parameters = test["experiment"], test.get("parameters") or {}
    if name not in known:
        raise UnknownName("experiment", name, known, "advisor claims list --json")
    if not isinstance(parameters, dict):
        raise UsageError(f"{where}: parameters of {name} are a mapping", code="BAD-CLAIM")
    kind = known[name]
    missing = [key for key in kind.needs if key not in parameters]
    extra = [key for key in parameters if key not in (*kind.needs, *kind.options)]
    if missing or extra:
        what = f"lacks {missing[0]!r}" if missing else f"has no {extra[0]!r}"
        raise UsageError(f"{where}: experiment {name} {what}", f"it takes {', '.join((*kind.needs, *kind.options))}", code="BAD-CLAIM")
    return ClaimTest(experiment=name, parameters=parameters, differs=test.get("differs"), part=_part(test.get("part"), where))


def _part(part: Any, where: str) -> dict[str, Any] | None:
    """Return what another part of the statement is judged by, defaults filled in."""
    if part is None:
        return None
    if not isinstance(part, dict) or set(part) - _PART_FIELDS:
        raise UsageError(f"{where}: part has {', '.join(sorted(_PART_FIELDS))}", code="BAD-CLAIM")
    metric = _text(part, "metric", where)
    low, high = _range(part, where)
    return {
        "metric": metric,
        "low": low,
        "high": high,
        "unit": str(part.get("unit") or "ratio"),
        "holds": _holds(part, metric, where),
        "tolerance": _number(part.get("tolerance", DEFAULT_TOLERANCE), "tolerance", where),
    }


def _holds(fields: Mapping[str, Any], metric: str, where: str) -> Any:
    holds = fields.get("holds") or ("at_most" if metric.startswith(LESS_IS_BETTER) else "at_least")
    if holds not in ("at_least", "at_most", "about"):
        raise UsageError(f"{where}: holds is at_least, at_most or about, not {holds!r}", code="BAD-CLAIM")
    return holds


def _text(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: {name} is missing", code="BAD-CLAIM")
    return " ".join(value.split())


def _range(fields: Mapping[str, Any], where: str) -> tuple[float, float]:
    if "value" in fields:
        value = _number(fields["value"], "value", where)
        return value, value
    low, high = (_number(fields.get(name), name, where) for name in ("low", "high"))
    if low > high:
        raise UsageError(f"{where}: low is above high", code="BAD-CLAIM")
    return low, high


def _number(value: Any, name: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise UsageError(f"{where}: {name} is a number, not {value!r}", code="BAD-CLAIM")
    return float(value)
