"""Clients that submit batches of 100 measurements over HTTP at once: what they saw, and what is there afterwards."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from typing import Any

from advisor.results.store import Store
from advisor.usecases import tokens

CLIENTS, ROWS = 8, 100


def submit_for(url: str, seconds: float) -> dict[str, Any]:
    """Serve ``url`` and let clients submit for so long; return counts, latencies in seconds, and what is wrong (a list)."""
    secrets = [tokens.create(url, f"client-{index}")["secret"] for index in range(CLIENTS)]
    server = subprocess.Popen(
        [sys.executable, "-c", "import sys; from advisor.cli.main import main; main(sys.argv[1:])", "--db", url, "serve", "--port", "0",
         "--submissions-per-minute", "1000000"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stderr is not None
        address = next(word for word in server.stderr.readline().split() if word.startswith("http")).rstrip("/")
        said: list[dict[str, Any]] = [{"took": [], "sent": [], "errors": []} for _ in range(CLIENTS)]
        until = time.monotonic() + seconds
        clients = [threading.Thread(target=_client, args=(address, secrets[i], i, until, said[i])) for i in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    finally:
        os.kill(server.pid, signal.SIGTERM)
        server.wait(30)
    took = sorted(value for one in said for value in one["took"])
    sent = [identifier for one in said for identifier in one["sent"]]
    wrong = [error for one in said for error in one["errors"]]
    with Store.open(url) as store:
        there = Counter(row["id"] for row in store.measurements())
        from advisor.results.columns import are_whole

        with store.reading() as connection:
            wrong += [] if are_whole(connection) else ["the columns lack measurements"]
    wrong += [f"lost {identifier}" for identifier in sent if there[identifier] != 1][:5]
    wrong += [f"{len(there)} are there, {len(sent)} were acknowledged"] if len(there) != len(sent) else []
    return {
        "batches": len(took),
        "rows": len(sent),
        "rows_per_s": round(len(sent) / seconds),
        "median_s": round(statistics.median(took), 4),
        "p99_s": round(took[len(took) * 99 // 100], 4),
        "slowest_s": round(took[-1], 4),
        "wrong": wrong[:10],
    }


def batch(client: int, number: int) -> list[dict[str, Any]]:
    """Return a machine and a hundred measurements with ids of their own."""
    devices = [{"id": f"cuda:{index}", "target": "cuda", "name": "A100", "state": "usable"} for index in range(8)]
    document = {"schema_version": 1, "fingerprint": f"{client:032x}", "host": {}, "devices": devices}
    rows = [
        {
            "record": "measurement",
            "id": str(uuid.uuid4()),
            "machine": f"{client:032x}",
            "benchmark": ("gemm", "attention")[row % 2],
            "backend": "torch",
            "device": f"cuda:{row % 8}",
            "dtype": "bf16",
            "params": {"m": 1 << (row % 12), "number": number},
            "metric": "flops_per_s",
            "value": 1e12 + row,
        }
        for row in range(ROWS)
    ]
    return [{"record": "machine", "document": document}, *rows]


def _client(address: str, secret: str, index: int, until: float, said: dict[str, list[Any]]) -> None:
    number = 0
    while time.monotonic() < until:
        records = batch(index, number)
        number += 1
        request = urllib.request.Request(
            f"{address}/api/measurements",
            data=json.dumps({"records": records}).encode(),
            headers={"Authorization": f"Bearer {secret}", "Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())},
            method="POST",
        )
        start = time.perf_counter()
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                new = json.loads(answer.read())["new"]
        except urllib.error.HTTPError as error:
            said["errors"].append(f"{error.code} {error.read()[:200]!r}")
            continue
        except OSError as error:
            said["errors"].append(repr(error))
            continue
        said["took"].append(time.perf_counter() - start)
        if new.get("measurement") != ROWS:
            said["errors"].append(f"{new} new of {ROWS}")
        said["sent"] += [record["id"] for record in records if record["record"] == "measurement"]
