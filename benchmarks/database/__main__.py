"""Put the results database to the test, on SQLite and on PostgreSQL.

    python benchmarks/database speed                      1,000,000 measurements: import, every page, every documented query
    python benchmarks/database speed --count 50000        fewer
    python benchmarks/database submit --seconds 60        8 clients submit batches of 100 over HTTP at once
    python benchmarks/database kill --times 200           writers are killed at random moments; what was acknowledged must be there
    python benchmarks/database speed --only sqlite        one of the two

Exits with 1 where a limit is not kept. Times are of this machine: use a quiet one. PostgreSQL is started for the test and removed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

import homes

#: Limits of a page or a query, and of an import.
LIMIT_S, ROWS_PER_S = 0.3, 10_000


def speed(url: str, arguments: argparse.Namespace) -> bool:
    """Print how long everything takes; tell whether the limits are kept."""
    from speed import fill, slowest

    imported = fill(url, arguments.count)
    print(json.dumps({name: round(value) for name, value in imported.items()}))
    kept = imported["rows_per_s"] >= ROWS_PER_S
    for seconds, what in sorted(slowest(url), reverse=True):
        mark = "" if seconds <= LIMIT_S else "   too slow"
        print(f"{seconds * 1000:7.0f} ms  {what}{mark}")
        kept = kept and seconds <= LIMIT_S
    return kept


def submit(url: str, arguments: argparse.Namespace) -> bool:
    """Print what concurrent submitters saw; tell whether all of it is there once."""
    from submitters import submit_for

    said = submit_for(url, arguments.seconds)
    print(json.dumps(said))
    return not said["wrong"] and said["p99_s"] < 1.0


def kill(url: str, arguments: argparse.Namespace) -> bool:
    """Print what was lost of killed writers: nothing may be."""
    from killed import kill_writers

    said = kill_writers(url, arguments.times, arguments.seed)
    print(json.dumps(said))
    return not said["wrong"]


TESTS: dict[str, Callable[[str, argparse.Namespace], bool]] = {"speed": speed, "submit": submit, "kill": kill}


def main() -> int:
    """Run one test on one or both databases."""
    parser = argparse.ArgumentParser(prog="benchmarks/database", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("test", choices=TESTS)
    parser.add_argument("--only", choices=homes.KINDS)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    kept = True
    for kind in [arguments.only] if arguments.only else homes.KINDS:
        with homes.home(kind) as url:
            print(f"-- {arguments.test} on {kind}", flush=True)
            kept = TESTS[arguments.test](url, arguments) and kept
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
