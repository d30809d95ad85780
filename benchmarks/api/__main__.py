"""Send the HTTP service what its own description allows and what it does not: no answer may be a failure of the server.

    pip install schemathesis
    python benchmarks/api                     every address of the OpenAPI document, valid and invalid requests
    python benchmarks/api --examples 50       fewer requests an address
    python benchmarks/api --url URL           on another database than a new SQLite file with the published rows

Three rounds: without a token, with a token that may submit and withdraw, and bodies made to break a reader (bombs, cut and nested JSON,
SQL and paths in every field). Exits with 1 if the service answered 5xx, if a write was accepted without a token, if anything was stored
without one, or if it stopped answering.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from hostile import attack

from advisor.results.overview import counts
from advisor.results.seed import seed
from advisor.results.store import Store
from advisor.usecases import tokens


def main() -> int:
    """Start a server, run the rounds, and say what went wrong."""
    parser = argparse.ArgumentParser(prog="benchmarks/api", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--url")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    program = shutil.which("schemathesis", path=str(Path(sys.executable).parent)) or shutil.which("schemathesis")
    if program is None:
        parser.error("schemathesis is not installed: pip install schemathesis")
    folder = Path(tempfile.mkdtemp(prefix="advisor-api-"))
    url = arguments.url or f"sqlite:///{folder / 'results.db'}"
    with Store.open(url) as store:
        seed(store)
    secret = tokens.create(url, "schemathesis", ("submit", "retract"))["secret"]
    server = subprocess.Popen(
        [sys.executable, "-c", "import sys; from advisor.cli.main import main; main(sys.argv[1:])", "--db", url, "serve", "--port", "0",
         "--submissions-per-minute", "1000000", "--questions-per-minute", "1000000"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    failed = []
    try:
        assert server.stderr is not None
        address = next(word for word in server.stderr.readline().split() if word.startswith("http")).rstrip("/")
        before = held(url)
        if _schemathesis(program, address, arguments, folder, []) != 0:
            failed.append("schemathesis without a token")
        if held(url) != before:
            failed.append("something was stored without a token")
        if _schemathesis(program, address, arguments, folder, ["--header", f"Authorization: Bearer {secret}"]) != 0:
            failed.append("schemathesis with a token")
        failed += attack(address, secret)
        with urllib.request.urlopen(f"{address}/healthz", timeout=30) as answer:
            if answer.status != 200:
                failed.append("the service is not well any more")
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)
    for line in failed:
        print(f"failed: {line}")
    print("no failure of the server" if not failed else f"{len(failed)} failures")
    return 1 if failed else 0


def held(url: str) -> dict[str, int]:
    """Return how many rows each table holds."""
    with Store.open(url) as store, store.reading() as connection:
        return counts(connection)


def _schemathesis(program: str, address: str, arguments: argparse.Namespace, folder: Path, more: list[str]) -> int:
    command = [
        program, "run", f"{address}/openapi.json", "--url", address, "--mode", "all", "--checks", "not_a_server_error",
        "--max-examples", str(arguments.examples), "--seed", str(arguments.seed), "--request-timeout", "60", "--continue-on-failure",
        "--phases", "examples,coverage,fuzzing", "--generation-database", "none", *more,
    ]  # fmt: skip
    return subprocess.run(command, check=False, cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main())
