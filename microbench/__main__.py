"""``python -m microbench``: a Request as JSON on standard input, Measurements as JSON lines on standard output.

``--catalogue [FILE...]`` prints what can be measured here, with the backends of those files; ``--plan`` reads a specification (see
``microbench.plan``) and prints Requests.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from typing import Any

from microbench.protocol import Case, Measurement, Request


def parse_request(document: dict[str, Any]) -> Request:
    """Return the Request in a JSON object; KeyError, TypeError or ValueError if it is none."""
    fields = dict(document)
    fields["cases"] = tuple(Case(benchmark=c["benchmark"], dtype=c["dtype"], params=dict(c["params"])) for c in fields["cases"])
    return Request(**fields)


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit status: 0, or 2 when the input is not understood."""
    parser = argparse.ArgumentParser(prog="python -m microbench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--catalogue", nargs="*", metavar="FILE", help="print what can be measured here")
    parser.add_argument("--plan", action="store_true", help="read a specification, print the Requests it means")
    options = parser.parse_args(argv)
    try:
        if options.catalogue is not None:
            from microbench.plan import catalogue

            print(json.dumps(catalogue(options.catalogue)))
            return 0
        document = json.load(sys.stdin)
        if options.plan:
            from microbench.plan import requests

            print(json.dumps([asdict(request) for request in requests(document)]))
            return 0
        request = parse_request(document)
    except (ValueError, KeyError, TypeError, LookupError) as error:
        print(f"microbench: {error.args[0] if error.args else error}", file=sys.stderr)
        return 2
    _measure(request)
    return 0


def _measure(request: Request) -> None:
    """Run ``request``; what frameworks print to standard output goes to standard error, so that the lines stay clean."""
    from microbench.runner import run

    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def emit(index: int, measurement: Measurement) -> None:
        out.write(json.dumps({"case": index, **measurement.to_dict()}, allow_nan=False) + "\n")
        out.flush()

    run(request, emit)


if __name__ == "__main__":
    sys.exit(main())
