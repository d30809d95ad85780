"""A fleet under Slurm: an sbatch script with one array task a node, which measures there and pushes to the shared database."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from advisor.errors import UsageError
from advisor.results.address import hide_password
from advisor.usecases.fleet import KINDS

#: Seconds that tasks wait for each other: tasks that run at once, each with a node of its own, are on different nodes.
MEET_S = 600

_SCRIPT = """\
#!/bin/bash
# {count} nodes {verb}, one array task each, alone on its node; the results go to the shared database.
# Submit from a folder that all nodes share:   sbatch {name}
#SBATCH --job-name=advisor-{kind}
#SBATCH --array=1-{count}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --exclusive
#SBATCH --time={minutes}
#SBATCH --output=advisor-{kind}-%A-%a.log
set -euo pipefail

{target}
meet="${{SLURM_SUBMIT_DIR:-$PWD}}/advisor-{kind}-$SLURM_ARRAY_JOB_ID"
mkdir -p "$meet"

# A node has one turn: a task that is sent to a node after another one leaves it alone.
mkdir "$meet/$SLURMD_NODENAME" 2>/dev/null || {{ echo "$SLURMD_NODENAME had its turn: fewer than {count} nodes were free"; exit 0; }}
# Tasks wait for each other, so that none ends early and gives its node to the next.
for _ in $(seq {meet_s}); do
  [ "$(find "$meet" -mindepth 1 -maxdepth 1 -type d | wc -l)" -ge {count} ] && break
  sleep 1
done

work=$(mktemp -d)
# What could not be sent stays in the shared folder, to be pushed by hand.
trap 'rm -rf "$work"' EXIT
local_db="sqlite:///$work/results.db"
{command}
for wait in 5 30 120 0; do
  advisor --db "$local_db" results push && exit 0
  sleep $wait
done
cp "$work/results.db" "$meet/$SLURMD_NODENAME.db"
echo "not sent: advisor --db sqlite:///$meet/$SLURMD_NODENAME.db results push" >&2
exit 1
"""


def slurm_script(kind: str, *, count: int, database_url: str, arguments: Sequence[str] = (), minutes: int = 60) -> str:
    """Return the script for ``count`` nodes; ``arguments`` are those of ``advisor probe`` or ``advisor bench``.

    A password in the URL is left out: the script then takes ``ADVISOR_PUSH_TO`` from the environment of ``sbatch``.
    """
    if kind not in KINDS:
        raise UsageError(f"a fleet does not {kind}", f"known: {', '.join(KINDS)}")
    if hide_password(database_url) == database_url:
        target = f"export ADVISOR_PUSH_TO={shlex.quote(database_url)}"
    else:
        target = ': "${ADVISOR_PUSH_TO:?the URL of the shared database, whose password is not written here}"'
    words = " ".join(["advisor", "--db", '"$local_db"', kind, *(shlex.quote(word) for word in arguments)])
    return _SCRIPT.format(
        kind=kind,
        verb={"probe": "are probed", "bench": "measure"}[kind],
        count=count,
        minutes=minutes,
        meet_s=MEET_S,
        target=target,
        command=words,
        name=f"advisor-{kind}.sh",
    )
