"""Is the recommendation the optimum? Twenty-four questions against spaces that are enumerated without the search.

    python benchmarks/exhaustive            all of them, half a minute and 6 GB
    python benchmarks/exhaustive 0 7 16     some, by number

Exits 1 where an answer is more than 0.5 % from the optimum.
"""

from __future__ import annotations

import sys
from pathlib import Path

# So that `python benchmarks/exhaustive` finds its own package beside the product.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.exhaustive.cases import CASES, name
from benchmarks.exhaustive.check import ALLOWED, check


def main(numbers: list[int]) -> int:
    """Check the cases and print a table."""
    wrong = 0
    print(f"{'':>3} {'question':<66} {'legal plans':>11} {'not searched':>12} {'answer/optimum':>14} {'answer s':>8} {'whole s':>8}")
    for number in numbers:
        found = check(CASES[number])
        wrong += not found.right
        mark = "" if found.right else "  WRONG"
        print(
            f"{number:>3} {name(CASES[number]):<66} {found.legal:>11,} {found.missing:>12,} {found.ratio:>14.5f} "
            f"{found.answer_s:>8.2f} {found.whole_s:>8.1f}{mark}",
            flush=True,
        )
    print(f"{len(numbers) - wrong} of {len(numbers)} within {100 * (ALLOWED - 1):.1f} % of the optimum")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]] or list(range(len(CASES)))))
