"""Three hundred random questions, legal and not: never a traceback, never an illegal plan, the same seed the same answer.

    python benchmarks/requests                 300 of them, some minutes
    python benchmarks/requests --count 2000    more

Questions are drawn by hypothesis from ``--seed``; one that breaks a rule is shrunk to its smallest form and printed. Exits 1 then.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from pathlib import Path

# So that `python benchmarks/requests` finds its own package beside the product.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from hypothesis import HealthCheck, given, seed, settings

from advisor.usecases.question import Request
from benchmarks.requests.asking import requests, twice


def main() -> int:
    """Ask, count how it ended, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    ended: Counter[str] = Counter()
    warnings.simplefilter("ignore")

    @seed(options.seed)
    @settings(max_examples=options.count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(requests())
    def every(request: Request) -> None:
        ended[twice(request)] += 1

    every()
    for how, count in ended.most_common():
        print(f"{count:>5}  {how}")
    print(f"{sum(ended.values())} questions: no traceback, no illegal plan, the same answer twice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
