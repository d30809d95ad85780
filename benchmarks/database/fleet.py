"""A made-up fleet: machines with devices, measured again and again over two years, as the records of an export."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from advisor.hardware.load import find_profile
from advisor.results.exchange import FORMAT, VERSION
from advisor.results.hash import content_hash, derived_id
from advisor.results.machines import device_rows, machine_row
from advisor.results.rows import iso

#: Products of the fleet, and devices of one machine.
PRODUCTS = (("a100-sxm4-80gb", 8), ("h100-sxm5-80gb", 8), ("mi300x", 8), ("l4", 2), ("v100-sxm2-32gb", 4), ("b200-sxm", 8))
VERSIONS = ("2.4.1", "2.5.1", "2.6.0", "2.7.1")
SIZES = (1024, 2048, 4096, 8192)
START = datetime(2025, 1, 1, tzinfo=UTC)
DAYS = 690
#: One measurement in so many failed; one in so many took twice as long; the last version lost so much on one product.
FAILED, SLOW, REGRESSED_PRODUCT, REGRESSED = 97, 501, "l4", 0.85
RUNS_OF_A_MACHINE = 12
#: One measurement in so many was withdrawn.
WITHDRAWN = 1009


def records(count: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, record): the header, then machines, environments, runs and ``count`` measurements."""
    random_ = random.Random(seed)
    environments = {version: {"torch": version, "driver": "550.54"} for version in VERSIONS}
    ids = {version: derived_id("environment", content_hash(document)) for version, document in environments.items()}
    yield "header", {"record": "header", "format": FORMAT, "version": VERSION}
    for version, document in environments.items():
        yield "environment", {"record": "environment", "id": ids[version], "document": document}
    written = number = 0
    while written < count:
        product, devices = PRODUCTS[number % len(PRODUCTS)]
        document = machine(number, product, devices)
        row = machine_row(document, origin="shared")
        yield "machine", {"record": "machine", **row, "first_seen_at": iso(START), "last_seen_at": iso(START + timedelta(days=DAYS))}
        for device in device_rows(row["id"], document):
            yield "device", {"record": "device", **device}
        for turn in range(RUNS_OF_A_MACHINE):
            moment = START + timedelta(days=DAYS * turn / RUNS_OF_A_MACHINE, seconds=random_.randrange(40 * 86_400))
            version = VERSIONS[turn * len(VERSIONS) // RUNS_OF_A_MACHINE]
            run = derived_id("benchmark-run", str(seed), str(number), str(turn))
            what = {"kind": "bench", "machine_id": row["id"], "environment_id": ids[version], "origin": "shared"}
            yield "run", {"record": "run", "id": run, **what, "started_at": iso(moment)}
            for item in measurements(random_, product, devices, version, moment):
                if written == count:
                    return
                written += 1
                identifier = derived_id(run, str(written))
                yield "measurement", {"record": "measurement", "id": identifier, "run_id": run, **item}
                if written % WITHDRAWN == 0:
                    yield "retraction", {"record": "retraction", "target_id": identifier, "reason": "another job was running"}
        number += 1


def machine(number: int, product: str, devices: int) -> dict[str, Any]:
    """Return the document of a machine with ``devices`` of a product."""
    sheet = find_profile(product)
    if sheet is None:
        raise SystemExit(f"no sheet {product!r}")
    one = {"target": "cuda", "vendor": sheet.vendor, "name": sheet.name, "profile": sheet.id, "state": "usable"}
    return {
        "schema_version": 1,
        "fingerprint": content_hash(["benchmark", number])[:32],
        "host": {"cpu": {"model": "EPYC", "usable_cpus": 128.0}, "memory": {"total_bytes": 1 << 40, "usable_bytes": 1 << 40}},
        "devices": [{"id": f"cuda:{index}", **one} for index in range(devices)],
    }


def measurements(random_: random.Random, product: str, devices: int, version: str, moment: datetime) -> Iterator[dict[str, Any]]:
    """Yield what one run measures on every device of a machine."""
    sheet = find_profile(product)
    peaks = sheet.dense_tflops if sheet is not None else {}
    for device in range(devices):
        for dtype in ("bf16", "fp16", "fp32"):
            for size in SIZES:
                for backend in ("torch", "jax"):
                    peak = peaks.get(dtype) or peaks.get("fp32") or 10.0
                    rate = peak * 1e12 * size / (size + 1500) * (0.9 if backend == "jax" else 1.0)
                    if version == VERSIONS[-1] and product == REGRESSED_PRODUCT:
                        rate *= REGRESSED
                    params = {"m": size, "n": size, "k": size}
                    yield _one(random_, device, "gemm", backend, version, dtype, params, "flops_per_s", rate, moment)
        for level in ("memory", "cache"):
            rate = ((sheet.memory_gb_per_s if sheet is not None else None) or 500.0) * 1e9 * (3 if level == "cache" else 0.9)
            params = {"kind": "triad", "level": level}
            yield _one(random_, device, "bandwidth", "torch", version, "fp32", params, "bytes_per_s", rate, moment)
        for length in (1024, 4096):
            params = {"batch": 1, "heads": 32, "seq": length, "head_dim": 128}
            yield _one(random_, device, "attention", "torch", version, "bf16", params, "seconds", length**2 * 1e-10, moment)
    for size in (1 << 20, 1 << 28):
        params = {"collective": "all_reduce", "bytes": size, "n_devices": devices}
        yield _one(random_, 0, "collective", "torch", version, "bf16", params, "bytes_per_s", size * 400.0, moment)


def _one(
    random_: random.Random,
    device: int,
    benchmark: str,
    backend: str,
    version: str,
    dtype: str,
    params: dict[str, Any],
    metric: str,
    value: float,
    moment: datetime,
) -> dict[str, Any]:
    value *= random_.lognormvariate(0.0, 0.01) * (0.5 if random_.randrange(SLOW) == 0 else 1.0)
    failed = random_.randrange(FAILED) == 0
    return {
        "device": f"cuda:{device}",
        "benchmark": benchmark,
        "backend": backend,
        "backend_version": version,
        "dtype": dtype,
        "params": params,
        "metric": metric,
        "value": None if failed else value,
        "low": None if failed else value * 0.99,
        "high": None if failed else value * 1.01,
        "samples": 5,
        "seconds": 0.25,
        "status": "failed" if failed else "ok",
        "reason": "out of memory" if failed else None,
        "sample_seconds": [round(random_.lognormvariate(-7, 0.02), 9) for _ in range(5)],
        "conditions": {"clock_mhz": 1410, "temperature_c": 60},
        "measured_at": iso(moment + timedelta(seconds=random_.random() * 600)),
    }
