"""Predicted against measured on this machine's own CPU, from `bench --quick` measurements alone.

    python benchmarks/cpu_truth                measure kernels and networks (some 18 minutes), predict, print the table
    python benchmarks/cpu_truth --predict      predict again from the database of the last run, measure nothing
    python benchmarks/cpu_truth --rows         each network with the parts of its prediction

The database (``--database``, by default build/cpu_truth.db) keeps every raw measurement. A busy machine spoils the numbers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# So that `python benchmarks/cpu_truth` finds its own package beside the product.
sys.path.insert(0, str(ROOT))

from benchmarks.cpu_truth.measure import measure_kernels, measure_networks  # noqa: E402
from benchmarks.cpu_truth.predict import compared, lines  # noqa: E402


def main() -> None:
    """Measure unless told not to, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", type=Path, default=ROOT / "build" / "cpu_truth.db", help="where raw measurements are kept")
    parser.add_argument("--predict", action="store_true", help="predict again from the database, measure nothing")
    parser.add_argument("--rows", action="store_true", help="print every network with the parts of its prediction")
    options = parser.parse_args()
    if not options.predict:
        options.database.parent.mkdir(parents=True, exist_ok=True)
        for path in options.database.parent.glob(options.database.name + "*"):
            path.unlink()
        print(f"{measure_kernels(options.database)} kernels measured", file=sys.stderr)
        print(f"{measure_networks(options.database)} networks measured", file=sys.stderr)
    print("\n".join(lines(compared(options.database), every=options.rows)))


if __name__ == "__main__":
    main()
