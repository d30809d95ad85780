"""Writers that are killed at random moments: every acknowledged measurement must be there, none by half, and the database opens at once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from typing import Any

from advisor.results.columns import are_whole
from advisor.results.store import Store

#: A batch of this many is one transaction: all of it is there, or none.
BATCH = 20
_WRITER = """
import sys, uuid
from advisor.results.store import Store
url, run = sys.argv[1:]
with Store.open(url) as store:
    print("ready", flush=True)
    number = 0
    while True:
        number += 1
        batch = str(uuid.uuid4())
        ids = store.add_measurements(run, [
            {"benchmark": "gemm", "backend": "torch", "device": "cpu0", "dtype": "fp32", "params": {"batch": batch, "row": row},
             "metric": "seconds", "value": 1.0, "sample_seconds": [0.5] * 50} for row in range(BATCH)
        ])
        print(" ".join(ids), flush=True)
        if number % 5 == 0:
            store.retract(ids[0], "every fifth batch")
            print("- " + ids[0], flush=True)
""".replace("BATCH", str(BATCH))


def kill_writers(url: str, times: int, seed: int) -> dict[str, Any]:
    """Kill ``times`` writers, each after a random moment; return counts, the slowest opening in seconds, and what is wrong (a list)."""
    random_ = random.Random(seed)
    with Store.open(url) as store:
        run = store.start_run(kind="bench")
    acknowledged: set[str] = set()
    withdrawn: set[str] = set()
    wrong: list[str] = []
    slowest = 0.0
    for number in range(times):
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, url, run], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        if writer.stdout.readline().strip() != "ready":
            wrong.append(f"writer {number} could not open the database")
        time.sleep(random_.uniform(0.0, 0.15))
        writer.send_signal(signal.SIGKILL)
        for line in writer.stdout.read().splitlines(keepends=True):
            if line.endswith("\n"):
                words = line.split()
                (withdrawn if words[0] == "-" else acknowledged).update(word for word in words if word != "-")
        writer.wait()
        start = time.perf_counter()
        with Store.open(url) as store, store.reading() as connection:
            slowest = max(slowest, time.perf_counter() - start)
            if not are_whole(connection):
                wrong.append(f"after kill {number} the columns are not what the rows are")
    with Store.open(url) as store:
        rows = store.measurements(retracted=True)
    batches: dict[str, int] = {}
    for row in rows:
        batches[row["params"]["batch"]] = batches.get(row["params"]["batch"], 0) + 1
    wrong += [f"lost {identifier}" for identifier in acknowledged - {row["id"] for row in rows}]
    wrong += [f"half a batch: {count} rows" for count in batches.values() if count != BATCH]
    wrong += [f"not withdrawn: {identifier}" for identifier in withdrawn - {row["id"] for row in rows if row["retracted"]}]
    return {
        "kills": times,
        "acknowledged": len(acknowledged),
        "there": len(rows),
        "withdrawn": len(withdrawn),
        "slowest_opening_s": round(slowest, 3),
        "wrong": wrong[:10],
    }
