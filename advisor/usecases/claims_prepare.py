"""Build once what runs of claims use again and again: environments, exports, tunings. It takes its time outside any budget."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.claims.records import Claim, Say
from advisor.errors import AdvisorError, EnvironmentLacks
from advisor.usecases.claims_run import chosen_claims, context
from advisor.usecases.claims_stored import StoredClaims

SCHEMA_VERSION = 1


def prepare_claims(
    names: Sequence[str] = (),
    *,
    only: Sequence[str] = (),
    dry_run: bool = False,
    file: Path | None = None,
    database_url: str,
    say: Say = lambda text: None,
) -> dict[str, Any]:
    """Build the environments that claims name and what their experiments keep; return what is there now and what could not be built.

    ``names``: these claims only; ``only``: these environments only, and no exports; ``dry_run`` builds nothing and says what is missing.
    What is there already is left as it is. UnknownName for a claim or an environment that does not exist.
    """
    from advisor.bench.children import ask
    from advisor.bench.environments import specs
    from advisor.claims.environments import environment, environments_of
    from advisor.claims.library import all_claims

    claims = chosen_claims(names, not names, all_claims(file))
    wanted = list(only) or list(dict.fromkeys(name for claim in claims for name in environments_of(claim)))
    start = time.monotonic()
    backends = specs(ask("--catalogue"))
    rows = [_environment(environment(name).name, backends, dry_run, say) for name in wanted]
    kept = [] if only or dry_run else _kept(claims, database_url, say)
    return {"schema_version": SCHEMA_VERSION, "environments": rows, "kept": kept, "seconds": time.monotonic() - start}


def _environment(name: str, backends: Mapping[str, Any], dry_run: bool, say: Say) -> dict[str, Any]:
    """Build one environment unless it is there, or this interpreter serves; a failure is a row."""
    from advisor.bench.environment_build import create
    from advisor.bench.environments import find
    from advisor.claims.environments import environment, interpreter, spec_of

    start = time.monotonic()
    spec = spec_of(name, backends)
    state, reason = find(name, spec).state, None
    if state == "absent" and interpreter(name) is not None:
        state = "here"
    elif state not in ("ready", "here") and not dry_run:
        try:
            state = create(spec, say).state
        except EnvironmentLacks as error:
            state, reason = "failed", error.message
    return {
        "name": name,
        "state": state,
        "reason": reason,
        "for": environment(name).purpose,
        "packages": list(spec.requirements),
        "seconds": time.monotonic() - start,
    }


def _kept(claims: Sequence[Claim], database_url: str, say: Say) -> list[dict[str, Any]]:
    """Let every experiment build what it keeps; a failure is a row, and the next one goes on."""
    from advisor.claims.library import experiments

    known, stored = experiments(), StoredClaims(database_url)
    rows = []
    for claim in claims:
        for test in claim.tests:
            prepare = known[test.experiment].prepare
            if prepare is None or not prepares(test.parameters):
                continue
            begin = time.monotonic()
            own = context(claim, end=float("inf"), rounds=2, database_url=database_url, stored=stored, say=say)
            try:
                lacks = prepare(test.parameters, own).lacks
            except AdvisorError as error:
                lacks = error.message
            rows.append({"claim": claim.id, "experiment": test.experiment, "lacks": lacks, "seconds": time.monotonic() - begin})
    return rows


def prepares(parameters: Any) -> bool:
    """Tell whether a test, or a side of it, says that it keeps what a first run builds."""
    return any(bool((side or {}).get("prepared")) for side in (parameters, parameters.get("a"), parameters.get("b")))
