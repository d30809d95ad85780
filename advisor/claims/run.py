"""Put one claim to the test: run its tests in order of preference and bring what they found to one verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from advisor.claims.library import experiments
from advisor.claims.records import Basis, Claim, ClaimTest, Context, Experiment, Finding, Judged, Result, Verdict
from advisor.claims.verdict import judge_outcome
from advisor.errors import AdvisorError
from advisor.units import format_quantity

#: A test that measures is not begun with less than this share of what it is said to take.
LEAST_SHARE = 0.25

MEANING: Mapping[Verdict, str] = {
    "confirmed": "You can count on it in the settings tested.",
    "refuted": "Do not plan with this number here; the measured one stands beside it.",
    "depends": "It holds in some of the settings tested and not in others: look up yours.",
    "inconclusive": "The interval is too wide to tell; run it again on a quiet machine or with more rounds.",
    "not_testable": "Nothing here or in the published rows can tell.",
    "ill_posed": "The statement cannot be right as it is worded.",
}


def cost_s(claim: Claim, rounds: int) -> float:
    """Return about how long a claim's tests take."""
    known = experiments()
    return sum(known[test.experiment].cost_s(test.parameters, rounds) for test in claim.tests)


def try_claim(claim: Claim, context: Context) -> Result:
    """Run the tests of ``claim``: of those that measure, until one answers; published and predicted ones always, they cost little."""
    start = time.monotonic()
    known = experiments()
    findings: list[Finding] = []
    for test in claim.tests:
        experiment = known[test.experiment]
        answered = any(finding.basis == "measured" and finding.settings and finding.part is None for finding in findings)
        if experiment.basis == "measured" and answered and test.part is None:
            continue
        findings.append(_run(test, experiment, claim, context))
    return result_of(claim, tuple(findings), time.monotonic() - start)


def _run(test: ClaimTest, experiment: Experiment, claim: Claim, context: Context) -> Finding:
    begin = time.monotonic()
    expected = experiment.cost_s(test.parameters, context.rounds)
    finding = Finding(experiment=experiment.name, basis=experiment.basis, verdict="not_testable", differs=test.differs, part=test.part)
    if experiment.basis == "measured" and context.left_s < LEAST_SHARE * expected:
        return replace(finding, lacks=f"time: it takes some {expected:.0f} s, {max(0.0, context.left_s):.0f} s were left")
    try:
        outcome = experiment.run(test.parameters, claim, context)
    except AdvisorError as error:
        return replace(finding, lacks=error.message, seconds=time.monotonic() - begin)
    verdict, settings = judge_outcome(replace(claim, **test.part) if test.part is not None else claim, outcome)
    return replace(finding, verdict=verdict, settings=settings, lacks=outcome.lacks, seconds=time.monotonic() - begin)


def result_of(claim: Claim, findings: tuple[Finding, ...], seconds: float) -> Result:
    """Bring findings to one result: the first in the claim's order that has settings speaks for it."""
    head = next((finding for finding in findings if finding.settings and finding.part is None), None)
    shown = _typical(head.settings) if head is not None else None
    basis: Basis = head.basis if head is not None else "none"
    verdict: Verdict = head.verdict if head is not None else "not_testable"
    if verdict == "confirmed" and any(finding.part is not None and finding.verdict == "refuted" for finding in findings):
        verdict = "depends"
    if claim.premise is not None:
        # What the tests found stands beside it; the number does not answer a statement that cannot be right.
        verdict, basis, shown = claim.premise, "none", None
    return Result(
        claim=claim,
        verdict=verdict,
        basis=basis,
        value=shown.value if shown else None,
        low=shown.low if shown else None,
        high=shown.high if shown else None,
        reason=_reason(claim, verdict, head, findings),
        meaning=claim.advice.get(verdict, MEANING[verdict]),
        findings=findings,
        seconds=seconds,
    )


def _typical(settings: tuple[Judged, ...]) -> Judged:
    """Return the setting in the middle (the lower middle of an even number)."""
    ordered = sorted(settings, key=lambda setting: setting.value)
    return ordered[(len(ordered) - 1) // 2]


def _reason(claim: Claim, verdict: Verdict, head: Finding | None, findings: tuple[Finding, ...]) -> str:
    parts = []
    if claim.premise is not None:
        return str(claim.why)
    if head is None:
        lacks = "; ".join(dict.fromkeys(finding.lacks for finding in findings if finding.lacks))
        needs = f"needs {claim.needs}" if claim.needs else ""
        parts += [text for text in (needs, lacks) if text]
        return "; ".join(parts) or "no test answers it here"
    listed = [
        f"{s.label} {format_quantity(s.value, claim.unit)} ({format_quantity(s.low, claim.unit)} to {format_quantity(s.high, claim.unit)})"
        + (f" {s.verdict}" if len({item.verdict for item in head.settings}) > 1 else "")
        for s in head.settings[:6]
    ]
    more = f" and {len(head.settings) - 6} more" if len(head.settings) > 6 else ""
    parts.append(f"{head.basis}: {', '.join(listed)}{more}")
    if head.lacks:
        parts.append(f"left out: {head.lacks}")
    if head.differs:
        parts.append(f"not quite the claim: {head.differs}")
    for finding in findings:
        if finding.part is not None:
            unit = str(finding.part["unit"])
            found = ", ".join(f"{s.label} {format_quantity(s.value, unit)}" for s in finding.settings) or finding.lacks
            parts.append(f"{str(finding.part['metric']).replace('_', ' ')} {finding.verdict.replace('_', ' ')}: {found}")
    return "; ".join(parts)
