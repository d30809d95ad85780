"""Ask a child of ``advisor.claims.children`` for its settings, in this interpreter or in an environment of its own."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.bench.environments import child_variables
from advisor.claims.environments import interpreter, lacks
from advisor.claims.records import Context, Outcome, Setting
from advisor.errors import UsageError
from microbench.child import run_child

LIMIT_S = 120.0
#: What building exports and tunings for one claim may take, outside the budget.
PREPARE_S = 1800.0
#: What a child takes: a framework's import and a few seconds of work.
TYPICAL_S = 20.0


def cache_folder(child: str) -> Path:
    """Return where a child keeps exports and tunings that it uses again."""
    from advisor.resources import user_data_dir

    return user_data_dir() / "claims" / child


def ask(parameters: Mapping[str, Any], context: Context, *, seed: int, prepare: bool = False) -> dict[str, Any]:
    """Run the child that ``parameters`` name and return what it printed: ``settings``, or ``lacks``, a sentence.

    ``parameters``: ``child``, and perhaps ``arguments``, ``environment``, ``limit_s``. The child reads its arguments as JSON with ``seed``,
    ``threads``, ``cache`` (a folder of its own), ``left_s`` and ``prepare`` added. UsageError where there is no such child.
    """
    name = str(parameters["child"])
    module = f"advisor.claims.children.{name}"
    if not name.isidentifier() or importlib.util.find_spec(module) is None:
        raise UsageError(f"there is no child {name!r}", "the children are the modules of advisor/claims/children", code="BAD-CLAIM")
    python = None
    if parameters.get("environment"):
        python = interpreter(str(parameters["environment"]))
        if python is None:
            return {"lacks": lacks(str(parameters["environment"]))}
    limit = PREPARE_S if prepare else max(5.0, min(float(parameters.get("limit_s") or LIMIT_S), context.left_s))
    added = {"seed": seed, "threads": context.threads, "cache": str(cache_folder(name)), "left_s": limit, "prepare": prepare}
    context.say(f"child {name}")
    asked = json.dumps({**(parameters.get("arguments") or {}), **added})
    child = run_child([python or sys.executable, "-m", module], timeout_s=limit, stdin=asked, env=_quiet(python))
    if child.status != "ok":
        return {"lacks": f"the child {name} did not answer: {child.reason}"}
    lines = child.stdout.strip().splitlines()
    try:
        document = json.loads(lines[-1] if lines else "")
    except ValueError:
        return {"lacks": f"the child {name} printed no result"}
    return document if isinstance(document, dict) else {"lacks": f"the child {name} printed no result"}


def _quiet(python: str | None) -> dict[str, str]:
    """Return the variables of a child under ``python``: no chatter of frameworks, no look at a network."""
    variables = child_variables(None if python == sys.executable else python)
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "GLOG_minloglevel": "3", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    return {**variables, **quiet, "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}


def settings_of(document: Mapping[str, Any], label: str) -> tuple[Setting, ...]:
    """Return the settings of a child's document."""
    return tuple(
        Setting(
            label=str(item.get("label") or label),
            value=item.get("value"),
            low=item.get("low"),
            high=item.get("high"),
            samples=tuple(item.get("samples") or ()),
            detail=item.get("detail") or {},
        )
        for item in document["settings"]
    )


def prepare(parameters: Mapping[str, Any], context: Context) -> Outcome:
    """Let the child build what it keeps, if its test says that it does."""
    if not parameters.get("prepared"):
        return Outcome()
    document = ask(parameters, context, seed=context.seed, prepare=True)
    return Outcome(settings=settings_of(document, "prepared") if "settings" in document else (), lacks=document.get("lacks"))
