"""Recommend: the best plan for a question, answered from the cost model and stored."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

from advisor.errors import DatabaseError
from advisor.search.records import Recommendation
from advisor.usecases.answer import build_answer
from advisor.usecases.claims_proof import with_proof
from advisor.usecases.mixed import best_of_mixed
from advisor.usecases.question import Question, Request, resolve
from advisor.usecases.ranking import rank_question
from advisor.usecases.studies import keep_study

if TYPE_CHECKING:
    from optuna.study import Study


def recommend(
    request: Request, *, database_url: str | None = None, save: bool = True, top: int | None = None, exhaustive: bool = False
) -> Recommendation:
    """Answer a question from the cost model; stores the answer in the database unless told not to.

    ``exhaustive`` compares the study's optimum with the whole enumerated space and says so in ``search``.
    """
    from advisor.usecases.calibration import load_calibration

    start = time.perf_counter()
    question = resolve(request, database_url)
    calibration = load_calibration()
    if question.hardware.parts:
        question, ranking = best_of_mixed(question, calibration)
    else:
        ranking = rank_question(question, calibration)
    studies: list[Study] = []
    answer = build_answer(question, ranking, calibration, start=start, top=top, exhaustive=exhaustive, keep=studies.append)
    answer = with_proof(question, answer, database_url)
    if save and database_url is not None:
        keep_study(question, studies[0], database_url)
        store_answer(question, answer, database_url)
    return answer


def store_answer(question: Question, answer: Recommendation, database_url: str) -> None:
    """Store an answer with its plans; a database that cannot be written costs the record, not the answer."""
    from advisor.results.store import Store

    document = answer.to_dict()
    plans = [document["recommendation"]] if document["recommendation"] else []
    try:
        with Store.open(database_url) as store:
            store.save_recommendation({**question.identity(), "objective": answer.objective}, document, [*plans, *document["alternatives"]])
    except DatabaseError as error:
        warnings.warn(f"the answer was not stored: {error.message}; {error.hint or 'see `advisor db status`'}", stacklevel=2)
