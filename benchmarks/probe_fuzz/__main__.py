"""Probe thousands of random and damaged machines: none may end in a traceback or take long.

    python benchmarks/probe_fuzz                 10,000 machines
    python benchmarks/probe_fuzz --count 500     fewer
    python benchmarks/probe_fuzz --seed 7        others

Each machine is made of the project's own recorded ones (tests/data/machines): files of several of them are mixed, cut off, repeated,
shuffled, filled with other bytes, emptied, or replaced by a folder or a dangling link. Prints the kinds of damage and the slowest
machine; exits with 1 if one raised, gave a document that is no JSON, or took more than the limit.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import yaml

from advisor.probe.assemble import probe_machine
from advisor.probe.root import Root
from advisor.report.probe import device_lines, framework_lines, host_lines, split_findings, verdict

MACHINES = Path(__file__).resolve().parents[2] / "tests" / "data" / "machines"
LIMIT_S = 5.0
_WORDS = (
    "", "0", "-1", "[N/A]", "N/A", "ERR!", "max", "18446744073709551615", "99999999999999999999999999", "0x", "0xffffffff", "NaN", "1e999",
    "\0", "\x1b[4m", "é中", "\udc80", "a" * 5000, "0-4294967295", "7-3", "{", "[[[[", "<gpu>", "|", ":", "%s%n", "../..", "٣", "²",
)  # fmt: skip


def cut(text: str, random_: random.Random) -> str:
    """Cut the text off anywhere."""
    return text[: random_.randrange(len(text) + 1)]


def shuffled(text: str, random_: random.Random) -> str:
    """Put the lines in another order, some of them twice."""
    lines = text.splitlines(keepends=True)
    return "".join(random_.choices(lines, k=len(lines) + 2)) if lines else text


def odd_word(text: str, random_: random.Random) -> str:
    """Put an odd value in place of one word."""
    words = text.split(" ")
    words[random_.randrange(len(words))] = random_.choice(_WORDS)
    return " ".join(words)


def noise(text: str, random_: random.Random) -> str:
    """Change single characters."""
    letters = list(text)
    for _ in range(min(len(letters), random_.randrange(1, 30))):
        letters[random_.randrange(len(letters))] = chr(random_.choice((random_.randrange(128), random_.randrange(0x2FFF))))
    return "".join(letters)


def replaced(text: str, random_: random.Random) -> str:
    """Put something else in the file's place."""
    return random_.choice(_WORDS)


DAMAGES: tuple[Callable[[str, random.Random], str], ...] = (cut, shuffled, odd_word, noise, replaced)


def make(folder: Path, sources: list[dict[str, str]], random_: random.Random) -> Counter[str]:
    """Write one machine below ``folder`` and return what was done to it."""
    done: Counter[str] = Counter()
    files: dict[str, str] = {}
    for source in random_.sample(sources, random_.choice((1, 1, 2, 3))):
        files |= {name: text for name, text in source.items() if random_.random() < 0.9}
    for name, text in files.items():
        path = folder / name.strip("/")
        if random_.random() < 0.4:
            damage = random_.choice(DAMAGES)
            text = damage(text, random_)
            done[damage.__name__] += 1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            kind = random_.random()
            if kind < 0.02:
                path.mkdir()
                done["folder"] += 1
            elif kind < 0.04:
                path.symlink_to(random_.choice(("nowhere", ".", "../..")))
                done["link"] += 1
            else:
                path.write_bytes(text.encode("utf-8", "surrogateescape"))
        except (OSError, ValueError):
            done["clash"] += 1  # two of the mixed machines have a file and a folder at one place
    return done


def main() -> int:
    """Probe the machines; print what came out."""
    parser = argparse.ArgumentParser(prog="benchmarks/probe_fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sources = [yaml.safe_load(path.read_text(encoding="utf-8"))["files"] for path in sorted(MACHINES.glob("*.yaml"))]
    done: Counter[str] = Counter()
    failures = 0
    readers = 0
    slowest = (0.0, 0)
    base = Path(tempfile.mkdtemp())
    try:
        for number in range(options.count):
            random_ = random.Random(f"{options.seed}/{number}")
            folder = base / str(number)
            folder.mkdir()
            done.update(make(folder, sources, random_))
            start = time.perf_counter()
            try:
                document = probe_machine(Root(folder)).to_dict()
                json.dumps(document, allow_nan=False).encode("utf-8", "surrogatepass")
                verdict(document), list(host_lines(document)), list(device_lines(document["devices"]))
                list(framework_lines(document["frameworks"])), split_findings(document["findings"])
                bad = [f for f in document["findings"] if f["code"] in ("READER_FAILED", "FINDER_FAILED")]
                readers += bool(bad)
                if bad:
                    print(f"machine {number} (seed {options.seed}): {bad[0]['message']} {bad[0]['evidence']}")
            except Exception:  # noqa: BLE001 - what may not happen is what is counted
                failures += 1
                print(f"machine {number} (seed {options.seed}):\n{traceback.format_exc(limit=-4)}")
            slowest = max(slowest, (time.perf_counter() - start, number))
            shutil.rmtree(folder)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(f"{options.count} machines; damage done: {', '.join(f'{name} {count}' for name, count in done.most_common())}")
    print(f"{failures} raised, {readers} cost a reader or a finder its answer; slowest {slowest[0]:.2f} s (machine {slowest[1]})")
    return 1 if failures or readers or slowest[0] > LIMIT_S else 0


if __name__ == "__main__":
    sys.exit(main())
