"""The Optuna studies behind answers: what they are called and where they are kept. What cannot be kept costs the record alone."""

from __future__ import annotations

import hashlib
import json
import warnings
from typing import TYPE_CHECKING, Any

from advisor.errors import DatabaseError
from advisor.usecases.question import Question

if TYPE_CHECKING:
    from optuna.study import Study


def study_name(question: Question, verb: str, **more: Any) -> str:
    """Return a name that says what was asked, and differs where anything that decides the answer does (``more`` included)."""
    request, w = question.request, question.workload
    told = {
        **question.identity(), "objective": w.objective, "limits": w.limits, "fixed": dict(request.fixed), "global_batch": w.global_batch,
        **more,
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:12]
    return f"{verb} {w.task} {question.model.name} on {question.platform.name} {digest}"


def measured_study(question: Question, database_url: str | None) -> Study:
    """Return the study that measures a question on machines like this one, new or to be continued."""
    from advisor.search.workers import open_study

    isa = sorted(question.platform.isa)
    name = study_name(question, "measure", threads=question.platform.threads, isa=isa, versions=versions(question))
    try:
        return open_study(database_url, name)
    except DatabaseError as error:
        warnings.warn(f"trials are kept for this run only: {error.message}", stacklevel=2)
        return open_study(None, name)


def versions(question: Question) -> dict[str, str]:
    """Return the versions of the frameworks on this machine; empty where the question is not about one."""
    machine = question.hardware.machine
    return {f.name: f.version for f in machine.frameworks if f.version} if machine is not None else {}


def keep_study(question: Question, study: Study, database_url: str) -> None:
    """Write the best trials of an analytic study, for optuna-dashboard and the like; once for the same answer."""
    from advisor.search.storage import keep
    from advisor.search.study import KEPT_TRIALS

    name = study_name(question, "recommend", values=[t.values for t in study.trials[:KEPT_TRIALS]])
    try:
        keep(study, name, database_url, KEPT_TRIALS)
    except DatabaseError as error:
        warnings.warn(f"the study was not stored: {error.message}", stacklevel=2)
