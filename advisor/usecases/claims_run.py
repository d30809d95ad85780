"""Put claims to the test: results are stored as they come, and one already answered is not run again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from advisor.claims.records import Claim, Context, Result, Say
from advisor.errors import UnknownName, UsageError
from advisor.usecases.claims_stored import Keeper, StoredClaims, definition

SCHEMA_VERSION = 1
ROUNDS = 3
MIN_BUDGET_S = 5.0
#: What a claim may take where no budget is given.
CLAIM_S = 900.0

OnResult = Callable[[Mapping[str, Any]], None]


def run_claims(
    names: Sequence[str] = (),
    *,
    everything: bool = False,
    file: Path | None = None,
    budget_s: float | None = None,
    rounds: int = ROUNDS,
    again: bool = False,
    save: bool = True,
    database_url: str,
    command: str | None = None,
    say: Say = lambda text: None,
    on_result: OnResult = lambda result: None,
) -> dict[str, Any]:
    """Put claims to the test and return their results; each is stored before the next begins.

    A claim already answered on this machine with this software and these claims' wording is passed over unless ``again``. What the budget
    does not reach is named in ``left`` and comes first the next time. UnknownName or UsageError for wrong input.
    """
    from advisor.claims.library import all_claims
    from advisor.claims.run import cost_s

    claims = chosen_claims(names, everything, all_claims(file))
    if budget_s is not None and not MIN_BUDGET_S <= budget_s < 1e6:
        raise UsageError(f"a budget of {budget_s:g} s tests nothing", f"give at least {MIN_BUDGET_S:g} seconds", code="BAD-BUDGET")
    if not 2 <= rounds <= 50:
        raise UsageError("rounds are 2 to 50", "one round cannot tell how much the next one differs", code="BAD-ROUNDS")
    start = time.monotonic()
    end = start + budget_s if budget_s is not None else float("inf")
    stored = StoredClaims(database_url)
    results: list[dict[str, Any]] = []
    left: list[str] = []
    # Cheap ones first: a short budget then answers the most.
    order = sorted(claims, key=lambda claim: cost_s(claim, rounds)) if everything else claims
    with ExitStack() as stack:
        keep = Keeper(stack, stored, database_url, command, {"claims": [c.id for c in claims], "budget_s": budget_s}) if save else None
        for number, claim in enumerate(order, 1):
            known = None if again else stored.newest(claim, same_software=True)
            if known is not None:
                results.append({**known, "stored": True})
                continue
            if end - time.monotonic() < min(MIN_BUDGET_S, cost_s(claim, rounds)):
                left.append(claim.id)
                continue
            say(f"{number}/{len(order)} {claim.id}")
            result = _run_one(claim, min(end, time.monotonic() + CLAIM_S), rounds, database_url, stored, say)
            if _cut_short(result, end - time.monotonic(), rounds):
                left.append(claim.id)
                continue
            document = {**result.to_dict(), "definition": definition(claim), "stored": False}
            if keep is not None:
                keep(result, document)
            results.append(document)
            on_result(document)
        if keep is not None:
            keep.finish()
    place = {claim.id: index for index, claim in enumerate(claims)}
    results.sort(key=lambda result: place[result["id"]])
    return {
        "schema_version": SCHEMA_VERSION,
        "machine": stored.fingerprint,
        "results": results,
        "left": left,
        "counts": counts(results),
        "seconds": time.monotonic() - start,
    }


def counts(results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Return how many results there are of each verdict and of each basis."""
    from advisor.claims.records import VERDICTS

    return {
        "verdict": {name: sum(result["verdict"] == name for result in results) for name in VERDICTS},
        "basis": {name: sum(result["basis"] == name for result in results) for name in ("measured", "published", "predicted", "none")},
    }


def chosen_claims(names: Sequence[str], everything: bool, claims: Mapping[str, Claim]) -> list[Claim]:
    """Return the claims of these names, or all of them; UnknownName or UsageError."""
    if everything == bool(names):
        raise UsageError("name claims, or say --all", "`advisor claims list` shows them", code="NO-CLAIM")
    for name in names:
        if name not in claims:
            raise UnknownName("claim", name, claims, "advisor claims list")
    return list(claims.values()) if everything else [claims[name] for name in dict.fromkeys(names)]


def _cut_short(result: Result, left_s: float, rounds: int) -> bool:
    """Tell whether the budget's end kept the tests that measure from an answer: the claim is then left for the next run."""
    from advisor.claims.run import cost_s

    measuring = [finding for finding in result.findings if finding.basis == "measured"]
    answered = any(finding.settings for finding in measuring)
    late = left_s < cost_s(result.claim, rounds) or any((finding.lacks or "").startswith("time:") for finding in measuring)
    return bool(measuring) and not answered and late


def _run_one(claim: Claim, end: float, rounds: int, database_url: str, stored: StoredClaims, say: Say) -> Result:
    from advisor.claims.run import try_claim

    return try_claim(claim, context(claim, end=end, rounds=rounds, database_url=database_url, stored=stored, say=say))


def context(claim: Claim, *, end: float, rounds: int, database_url: str, stored: StoredClaims, say: Say) -> Context:
    """Return what the experiments of ``claim`` may use, until ``end`` of the monotonic clock."""
    return Context(
        threads=stored.threads,
        device=stored.device,
        device_id=stored.device_id,
        end=end,
        rounds=rounds,
        seed=int(time.time()) % 100_000,
        estimate=lambda model, plan, hardware, question: _estimate(model, plan, hardware, question, database_url),
        recommend=lambda model, hardware, question: _recommend(model, hardware, question, database_url),
        say=lambda text: say(f"{claim.id}: {text}"),
    )


def _request(model: str, hardware: str, question: Mapping[str, Any]) -> Any:
    from advisor.usecases.question import Request

    return Request(model=model, hardware=hardware, given=frozenset({"model", "hardware", *question}), **question)


def _estimate(model: str, plan: Mapping[str, Any], hardware: str, question: Mapping[str, Any], database_url: str) -> dict[str, Any]:
    from advisor.usecases.estimate import estimate

    return estimate(_request(model, hardware, question), plan, database_url=database_url).to_dict()


def _recommend(model: str, hardware: str, question: Mapping[str, Any], database_url: str) -> dict[str, Any]:
    from advisor.usecases.recommend import recommend

    return recommend(_request(model, hardware, question), database_url=database_url, save=False).to_dict()
