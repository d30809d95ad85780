"""Whether the numbers can be trusted on a machine whose speed drifts. Three questions, one command each; all need a quiet machine.

    python benchmarks/trust ratios      does the ratio of two variants repeat?               about 17 minutes
    python benchmarks/trust coverage    do the stated intervals hold what ten later runs find? about 35 minutes
    python benchmarks/trust load        is a load beside us noticed, and does it shift the result?  about 6 minutes

``--scale 0.05`` shortens each by that factor, to try the command out; ``--json`` prints the numbers behind the verdict. Exit status
0 when the bars are met, 1 when one is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import coverage_later
import load_beside
import ratios

QUESTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "ratios": ratios.measure,
    "coverage": coverage_later.measure,
    "load": load_beside.measure,
}


def main() -> int:
    """Answer one question."""
    parser = argparse.ArgumentParser(
        prog="python benchmarks/trust", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", choices=QUESTIONS)
    parser.add_argument("--scale", type=float, default=1.0, help="of the time that each run is given")
    parser.add_argument("--runs", type=int, help="runs to compare (default: 5, 10, 3)")
    parser.add_argument("--backends", help="comma-separated; default: numpy, torch, onnxruntime, openvino, those that are present")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    arguments: dict[str, Any] = {"scale": options.scale, "backends": options.backends.split(",") if options.backends else None}
    if options.runs:
        arguments["runs"] = options.runs
    document = QUESTIONS[options.question](**arguments)
    if options.json:
        print(json.dumps(document))
    else:
        for line in document["lines"]:
            print(line)
    return 0 if document["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
