"""List, show and run claims: results are stored as measurements of the benchmark ``claim``, and one already answered is not run again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from advisor.claims.records import Claim, Context, Result
from advisor.errors import UnknownName, UsageError

SCHEMA_VERSION = 1
BENCHMARK = "claim"
ROUNDS = 3
MIN_BUDGET_S = 5.0
#: What a claim may take where no budget is given.
CLAIM_S = 900.0
#: Packages whose version may change a verdict.
SOFTWARE = (
    "numpy", "torch", "jax", "onnxruntime", "onnx", "openvino", "tensorflow", "ai-edge-litert", "apache-tvm", "executorch",
    "torchao", "lmdb", "webdataset", "datasets", "pyarrow", "deepspeed", "mindspore", "opencv-python-headless", "pillow",
)  # fmt: skip

Say = Callable[[str], None]
OnResult = Callable[[Mapping[str, Any]], None]


def list_claims(*, file: Path | None = None, database_url: str) -> dict[str, Any]:
    """Return every claim with its newest result on this machine, or nulls where it was not run."""
    from advisor.claims.library import all_claims, experiments

    claims = all_claims(file)
    stored = _Stored(database_url)
    return {
        "schema_version": SCHEMA_VERSION,
        "machine": stored.fingerprint,
        "claims": [_row(claim, stored.newest(claim)) for claim in claims.values()],
        "experiments": [{"name": e.name, "title": e.title, "basis": e.basis} for e in experiments().values()],
    }


def show_claim(name: str, *, file: Path | None = None, database_url: str) -> dict[str, Any]:
    """Return one claim whole with its newest result on this machine (``result`` is null where it was not run)."""
    from advisor.claims.library import all_claims

    claims = all_claims(file)
    if name not in claims:
        raise UnknownName("claim", name, claims, "advisor claims list")
    return {
        "schema_version": SCHEMA_VERSION,
        "claim": claims[name].to_dict(),
        "result": _Stored(database_url).newest(claims[name]),
    }


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

    claims = _chosen(names, everything, all_claims(file))
    if budget_s is not None and not MIN_BUDGET_S <= budget_s < 1e6:
        raise UsageError(f"a budget of {budget_s:g} s tests nothing", f"give at least {MIN_BUDGET_S:g} seconds", code="BAD-BUDGET")
    if not 2 <= rounds <= 50:
        raise UsageError("rounds are 2 to 50", "one round cannot tell how much the next one differs", code="BAD-ROUNDS")
    start = time.monotonic()
    end = start + budget_s if budget_s is not None else float("inf")
    stored = _Stored(database_url)
    results: list[dict[str, Any]] = []
    left: list[str] = []
    # Cheap ones first: a short budget then answers the most.
    order = sorted(claims, key=lambda claim: cost_s(claim, rounds)) if everything else claims
    with ExitStack() as stack:
        keep = _Keeper(stack, stored, database_url, command, {"claims": [c.id for c in claims], "budget_s": budget_s}) if save else None
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


def definition(claim: Claim) -> str:
    """Return a short hash of everything a claim says and of the rules: a result belongs to the wording it was run with."""
    from advisor.claims.verdict import RULES
    from advisor.results.hash import clean, content_hash

    return content_hash(clean({**claim.to_dict(), "rules": RULES}))[:16]


def prepare() -> dict[str, Any]:
    """Return which packages the shipped claims could use and which are missing, with the command that brings each."""
    from advisor.claims.needed import PACKAGES
    from advisor.probe.packages import installed_packages

    rows = [
        {"package": name, "version": installed_packages().get(name), "install": f"pip install {name}", "for": purpose}
        for name, purpose in PACKAGES.items()
    ]
    return {"schema_version": SCHEMA_VERSION, "packages": rows}


def _chosen(names: Sequence[str], everything: bool, claims: Mapping[str, Claim]) -> list[Claim]:
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


def _run_one(claim: Claim, end: float, rounds: int, database_url: str, stored: _Stored, say: Say) -> Result:
    from advisor.claims.run import try_claim

    context = Context(
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
    return try_claim(claim, context)


def _request(model: str, hardware: str, question: Mapping[str, Any]) -> Any:
    from advisor.usecases.question import Request

    return Request(model=model, hardware=hardware, given=frozenset({"model", "hardware", *question}), **question)


def _estimate(model: str, plan: Mapping[str, Any], hardware: str, question: Mapping[str, Any], database_url: str) -> dict[str, Any]:
    from advisor.usecases.estimate import estimate

    return estimate(_request(model, hardware, question), plan, database_url=database_url).to_dict()


def _recommend(model: str, hardware: str, question: Mapping[str, Any], database_url: str) -> dict[str, Any]:
    from advisor.usecases.recommend import recommend

    return recommend(_request(model, hardware, question), database_url=database_url, save=False).to_dict()


def _row(claim: Claim, result: Mapping[str, Any] | None) -> dict[str, Any]:
    own = {name: getattr(claim, name) for name in ("id", "statement", "metric", "unit", "low", "high", "holds", "tolerance", "source")}
    names = ("verdict", "basis", "value", "reason", "measured_at")
    found = {name: result[name] if result else None for name in names}
    return {
        **own,
        "tests": [test.experiment for test in claim.tests],
        **found,
        "interval": [result["low"], result["high"]] if result else None,
    }


class _Stored:
    """What this machine's database holds of claims."""

    def __init__(self, database_url: str) -> None:
        from advisor.results.store import Store
        from advisor.usecases.devices import device_to_measure
        from advisor.usecases.probe import probe

        self.machine = probe(save=False)
        self.fingerprint = self.machine.fingerprint
        self.threads = max(1, int(self.machine.host.cpu.usable_cpus or 1))
        self.device_id, self.device = device_to_measure(self.machine)
        self.software = _software()
        with Store.open(database_url) as store:
            rows = store.measurements(benchmark=BENCHMARK, machine=self.fingerprint, origin="local")
        self.results: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            result = row["conditions"].get("result")
            if isinstance(result, dict):
                whole = {
                    **result,
                    "measured_at": row["measured_at"],
                    "measurement": row["id"],
                    "software": row["conditions"].get("software"),
                }
                self.results.setdefault(str(row["params"].get("claim")), []).append(whole)

    def newest(self, claim: Claim, *, same_software: bool = False) -> dict[str, Any] | None:
        """Return the newest result of a claim as it is worded now, or None."""
        own = definition(claim)
        for result in self.results.get(claim.id, []):
            if result.get("definition") == own and (not same_software or result.get("software") == self.software):
                return result
        return None


class _Keeper:
    """Stores each result as it comes, under one run."""

    def __init__(self, stack: ExitStack, stored: _Stored, database_url: str, command: str | None, settings: Mapping[str, Any]) -> None:
        from advisor.results.store import Store

        self.stored, self.command, self.settings = stored, command, settings
        self.store = stack.enter_context(Store.open(database_url))
        self.run_id: str | None = None

    def __call__(self, result: Result, document: dict[str, Any]) -> None:
        if self.run_id is None:
            machine_id = self.store.save_machine(self.stored.machine.to_dict())
            self.run_id = self.store.start_run(
                kind=BENCHMARK, machine_id=machine_id, software=self.stored.software, command=self.command, settings=self.settings
            )
        document["measurement"] = self.store.add_measurement(
            self.run_id, measurement(result, document, self.stored.software, self.stored.device_id)
        )

    def finish(self) -> None:
        """Mark the run as come to its end."""
        if self.run_id is not None:
            self.store.finish_run(self.run_id)


def measurement(result: Result, document: Mapping[str, Any], software: Mapping[str, str], device_id: str) -> dict[str, Any]:
    """Return a result as a measurement of the benchmark ``claim``: its number is the value, the whole of it stands in the conditions."""
    shown = {name: value for name, value in document.items() if name != "stored"}
    return {
        "benchmark": BENCHMARK,
        "backend": result.basis,
        "device": device_id,
        "dtype": "none",
        "params": {"claim": result.claim.id},
        "metric": result.claim.metric,
        "unit": result.claim.unit,
        "value": result.value,
        "low": result.low,
        "high": result.high,
        "samples": sum(len(setting.samples) for finding in result.findings for setting in finding.settings),
        "seconds": result.seconds,
        "status": "ok" if result.value is not None else "unsupported",
        "reason": result.reason if result.value is None else None,
        "conditions": {"result": shown, "software": dict(software)},
    }


def _software() -> dict[str, str]:
    from advisor.probe.packages import installed_packages

    return {name: installed_packages()[name] for name in SOFTWARE if name in installed_packages()}
