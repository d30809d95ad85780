"""Put stored verdicts of claims beside the advice of an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.search.records import Recommendation

if TYPE_CHECKING:
    from advisor.usecases.question import Question


def with_proof(question: Question, answer: Recommendation, database_url: str | None) -> Recommendation:
    """Return ``answer`` with what this machine's claims say about it; as it is where none was run, or none concerns it."""
    from advisor.search.advice.proven import TIPS, proven_advice

    if database_url is None or answer.recommendation is None:
        return answer
    results = stored_results(database_url, frozenset(tip.claim for tip in TIPS))
    found = tuple(
        proven_advice(question.model, question.workload, answer.recommendation.plan, results, local=bool(question.hardware.local))
    )
    return replace(answer, recommendation=replace(answer.recommendation, why=(*answer.recommendation.why, *found))) if found else answer


def stored_results(database_url: str, names: frozenset[str]) -> list[dict[str, object]]:
    """Return the newest results of these claims on this machine, as they are worded now; nothing where the database holds none.

    The machine is probed only where there is anything to look for.
    """
    from advisor.errors import DatabaseError
    from advisor.results.store import Store
    from advisor.usecases.claims_stored import BENCHMARK, StoredClaims

    try:
        with Store.open(database_url) as store:
            if not store.measurements(benchmark=BENCHMARK, limit=1):
                return []
    except DatabaseError:
        return []  # an answer does not fail for want of what might stand beside it; storing it says what is wrong
    from advisor.claims.library import shipped

    stored = StoredClaims(database_url)
    found = (stored.newest(claim) for claim in shipped() if claim.id in names)
    return [result for result in found if result is not None]
