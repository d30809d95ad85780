"""Talk to measuring children: what can be measured, which cases, and one round of them, whatever happens to the child."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from advisor.bench.environments import child_variables
from advisor.errors import EnvironmentLacks, UsageError
from microbench.child import ChildResult, run_child
from microbench.protocol import Case, Measurement, Request

#: What starting a child and importing its framework may take beyond the budget before it is taken to hang.
GRACE_S = 90.0
#: After so many deaths in one round the rest of its cases is given up.
MAX_DEATHS = 12

Line = Mapping[str, Any]


def ask(*arguments: str, document: Mapping[str, Any] | None = None) -> Any:
    """Run ``python -m microbench ARGUMENTS`` and return the JSON it prints; UsageError if it refuses them or the document."""
    result = run_child(
        [sys.executable, "-m", "microbench", *arguments],
        timeout_s=60,
        stdin=None if document is None else json.dumps(document),
        env=child_variables(None),
    )
    if result.status == "failed" and result.returncode == 2:
        raise UsageError(result.reason.removeprefix("microbench: "), "`advisor bench --list` shows what there is", code="UNKNOWN-BENCH")
    if result.status != "ok":
        raise EnvironmentLacks(
            "NO-MICROBENCH", f"the measuring child does not start: {result.reason}", f"try `{sys.executable} -m microbench --catalogue`"
        )
    return json.loads(result.stdout)


def plan(document: Mapping[str, Any]) -> list[Request]:
    """Return the Requests a specification means (one a backend and thread setting)."""
    return [
        Request(**{**request, "cases": tuple(Case(**case) for case in request["cases"])}) for request in ask("--plan", document=document)
    ]


def run_round(
    request: Request,
    *,
    python: str | None = None,
    memory_limit_bytes: int | None = None,
    on_result: Callable[[int, Line], None] | None = None,
) -> list[Line]:
    """Run one round and return a measurement for each case, in order; a child's death costs the case it was at.

    ``python`` is the interpreter of another environment, where microbench need not be installed.
    ``on_result(i, line)`` is called as results come; a case that takes turns with its variants comes twice, the second time with more
    samples. The cases behind the one that killed the child go to a new child.
    """
    lines: list[Line] = []
    start = time.monotonic()
    deaths = 0
    while len(lines) < len(request.cases):
        first = len(lines)
        left = max(1.0, request.budget_s - (time.monotonic() - start))
        part = replace(request, cases=request.cases[first:], budget_s=left)

        def take(text: str, first: int = first) -> None:
            line = _parse(text)
            if line is not None:
                number = first + int(line.pop("case", len(lines) - first))
                lines[number : number + 1] = [line]
                if on_result is not None:
                    on_result(number, line)

        child = run_child(
            [python or sys.executable, "-m", "microbench"],
            timeout_s=left + GRACE_S,
            env=child_variables(python),
            stdin=json.dumps(asdict(part)),
            memory_limit_bytes=memory_limit_bytes,
            on_line=take,
        )
        if len(lines) >= len(request.cases):
            break
        deaths += 1
        ready = "microbench: ready" in child.stderr
        lost = [request.cases[len(lines)]] if ready and deaths < MAX_DEATHS else list(request.cases[len(lines) :])
        for case in lost:
            lines.append(_lost(request, case, child))
            if on_result is not None:
                on_result(len(lines) - 1, lines[-1])
    return lines[: len(request.cases)]


def _parse(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and "benchmark" in line and "status" in line else None


def _lost(request: Request, case: Case, child: ChildResult) -> Line:
    """Return the measurement of a case whose child died at it."""
    hung = child.status == "timeout" or "Timeout (" in child.stderr
    reason = "it did not answer within its deadline and was ended" if hung else f"its process ended: {_why(child)}"
    return Measurement(
        benchmark=case.benchmark,
        backend=request.backend,
        backend_version=None,
        device=request.device,
        dtype=case.dtype,
        params={**case.params, "threads": request.threads},
        metric="seconds",
        unit="s",
        value=None,
        low=None,
        high=None,
        run_low=None,
        run_high=None,
        samples=0,
        seconds=child.seconds,
        status="timeout" if hung else "failed",
        reason=reason,
    ).to_dict()


def _why(child: ChildResult) -> str:
    if child.status == "crashed":
        text = child.reason
        return f"{text} (out of memory?)" if "SIGKILL" in text else text
    noise = ("microbench:",)
    said = [line.strip() for line in child.stderr.splitlines() if line.strip() and not line.startswith(noise)]
    return f"exit status {child.returncode}" + (f", {said[-1][:200]}" if said else "")
