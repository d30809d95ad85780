"""Hold the probe against recorded machines: for each fact they claim, does the probe's document say so?

    python benchmarks/conformance              the project's own machines (tests/data/machines)
    python benchmarks/conformance FOLDER       machines recorded as FOLDER/<kind>/<name>/ with an expected.yaml each
    python benchmarks/conformance --verbose    also every fact that does not hold

Exits with 1 if a fact does not hold.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

from machines import OWN, Machine, own_machines, recorded_machines  # noqa: E402 - run as a folder, so its own modules are siblings
from rules import Fact, facts_of  # noqa: E402

from advisor.probe.assemble import probe_machine  # noqa: E402
from advisor.probe.root import Root  # noqa: E402


def check(machines: Iterable[Machine]) -> Iterator[tuple[Machine, Fact]]:
    """Yield every fact of every machine, compared with what the probe says of it."""
    for machine in machines:
        with machine.laid_out() as folder:
            document = probe_machine(Root(folder)).to_dict()
        for fact in facts_of(machine, document):
            yield machine, fact


def main(argv: list[str] | None = None) -> int:
    """Print kind, facts held and facts claimed; return 1 if one does not hold."""
    parser = argparse.ArgumentParser(prog="benchmarks/conformance", description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, help="recorded machines; without it the project's own")
    parser.add_argument("--kind", help="only machines of this kind")
    parser.add_argument("--verbose", action="store_true", help="print each fact that does not hold")
    options = parser.parse_args(argv)
    machines = recorded_machines(options.folder) if options.folder else own_machines(OWN)
    held: Counter[str] = Counter()
    claimed: Counter[str] = Counter()
    count = 0
    for machine, fact in check(item for item in machines if options.kind in (None, item.kind)):
        claimed[machine.kind] += 1
        held[machine.kind] += fact.holds
        count += 1
        if options.verbose and not fact.holds:
            print(f"{machine.kind}/{machine.name}: {fact.name}: claimed {fact.claimed!r}, probed {fact.probed!r}"[:300])
    for kind in sorted(claimed):
        print(f"{kind:<20} {held[kind]:>6} of {claimed[kind]:>6} facts hold")
    print(f"{'total':<20} {held.total():>6} of {claimed.total():>6} facts hold")
    return 0 if count and held == claimed else 1


if __name__ == "__main__":
    sys.exit(main())
