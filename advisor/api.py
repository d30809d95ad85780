"""The Python interface: what the commands answer, as typed records.

    from advisor import probe, recommend, estimate

    machine = probe()
    answer = recommend("gpt-13b", hardware="64xa100-sxm4-80gb", seq=2048, global_batch=512)
    answer.recommendation.plan.tp, answer.recommendation.estimate.step_time_s.value

Each record has ``to_dict()``: the document of the command's ``--json``. Bad input raises ``advisor.errors.AdvisorError``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.probe.records import Machine
    from advisor.search.records import Recommendation
    from advisor.usecases.estimate import PlanEstimate
    from advisor.usecases.question import Request


def probe(root: str | Path | None = None, *, frameworks: bool = False) -> Machine:
    """Return what is in this machine (or in the recorded one below ``root``), what can be used, and how to mend the rest.

    ``frameworks`` asks every installed framework, each in a child process, what it can use; without it the cached answers are
    given. Nothing is stored.
    """
    from advisor.usecases.probe import probe as run

    return run(root=Path(root) if root is not None else None, frameworks=frameworks, save=False)


def recommend(model: str, *, hardware: str = "local", db: str | None = None, save: bool = False, **question: Any) -> Recommendation:
    """Return the best plan for ``model`` on ``hardware``, its runners-up and reasons.

    ``question`` takes the options of ``advisor recommend`` under their own names with underscores: ``task``, ``seq``,
    ``global_batch``, ``input_len``, ``output_len``, ``concurrency``, ``request_rate``, ``objective``, ``seed``, and the mappings
    ``limit``, ``fix`` and ``price``. ``db`` is the results database whose measurements are used (default: the user's own);
    ``save`` stores the answer there.
    """
    from advisor.settings import load_settings
    from advisor.usecases.recommend import recommend as run

    return run(_request(model, hardware, question), database_url=load_settings(db).database_url, save=save)


def estimate(
    model: str, plan: Mapping[str, Any] | None = None, *, hardware: str = "local", db: str | None = None, **question: Any
) -> PlanEstimate:
    """Return the estimate of one plan: fields that ``plan`` leaves out are chosen as ``recommend`` would choose them.

    ``question`` as for ``recommend``. Raises UsageError naming every rule that the plan breaks.
    """
    from advisor.settings import load_settings
    from advisor.usecases.estimate import estimate as run

    return run(_request(model, hardware, question), plan, database_url=load_settings(db).database_url)


def _request(model: str, hardware: str, question: Mapping[str, Any]) -> Request:
    from advisor.usecases.question import Request

    renamed = {"limit": "limits", "fix": "fixed", "price": "prices"}
    values = {renamed.get(name, name): value for name, value in question.items()}
    return Request(model=model, hardware=hardware, given=frozenset({"model", "hardware", *question}), **values)
