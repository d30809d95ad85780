"""The torchrun command that starts one process a device, as several formats write and check it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec

from advisor.export._spec import Answer
from advisor.export._text import Raw, options, shell_words
from microbench.child import run_child

_DEADLINE_S = 120.0
PARSER = "torch.distributed.run.parse_args"

#: Options of torchrun (torch.distributed.run, torch 2.13), for a machine without torch.
_KNOWN = {
    "--nnodes", "--nproc-per-node", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf", "--standalone", "--max-restarts",
    "--monitor-interval", "--start-method", "--role", "--module", "--no-python", "--run-path", "--log-dir", "--redirects", "--tee",
    "--local-ranks-filter", "--node-rank", "--master-addr", "--master-port", "--local-addr", "--logs-specs", "--numa-binding",
}  # fmt: skip


def torchrun_words(answer: Answer) -> list[str]:
    """Return ``torchrun`` and its options for the plan's nodes and devices."""
    words = ["torchrun", f"--nnodes={answer.nodes}", f"--nproc-per-node={answer.processes_per_node}"]
    if answer.nodes == 1:
        words.append("--standalone")
    else:
        words += ["--rdzv-backend=c10d", Raw('--rdzv-endpoint="${MASTER_ADDR:?set MASTER_ADDR to the first node}:${MASTER_PORT:-29500}"')]
        words.append(Raw(f'--rdzv-id="${{JOB_ID:-{answer.plan_id}}}"'))
    return [*words, "--max-restarts=0"]


def launch_notes(answer: Answer) -> list[str]:
    """Return the header line that says where to start the command."""
    return [] if answer.nodes == 1 else [f"Run it on each of the {answer.nodes} nodes, MASTER_ADDR being the first."]


def check_torchrun(text: str, answer: Answer, program: str) -> tuple[list[str], list[str], list[str]]:
    """Return the words after ``program`` in the torchrun command of ``text``, the validators that looked, and what is wrong."""
    try:
        words = shell_words(text, "torchrun")
    except ValueError as error:
        return [], [], [f"run.sh: {error}"]
    if words is None:
        return [], [], ["run.sh does not start torchrun"]
    if program not in words:
        return [], [], [f"run.sh does not run {program}"]
    at = words.index(program)
    problems = _world(words[1:at], answer)
    if find_spec("torch") is None:
        return words[at + 1 :], [], problems
    # The program's own name does not matter to the parser: one name serves all formats.
    refused = _parsed((*words[1:at], "train.py"))
    return words[at + 1 :], [PARSER], [*problems, *([refused] if refused else [])]


def _world(own: Sequence[str], answer: Answer) -> list[str]:
    given = {
        name.replace("_", "-"): value
        for name, value in options([w for w in own if (w.startswith("-") and w != "-m") or w.isdigit()]).items()
    }
    given = {"--" + name.lstrip("-"): value for name, value in given.items()}
    problems = [f"torchrun has no option {name}" for name in given if name not in _KNOWN]
    nodes, each = given.get("--nnodes") or "", given.get("--nproc-per-node") or ""
    if not nodes.isdigit() or not each.isdigit():
        return [*problems, "run.sh needs --nnodes and --nproc-per-node as numbers"]
    if int(nodes) * int(each) != answer.plan.devices:
        problems.append(f"{nodes} nodes of {each} processes are {int(nodes) * int(each)}, the plan has {answer.plan.devices}")
    return problems


@lru_cache(maxsize=64)
def _parsed(words: tuple[str, ...]) -> str | None:
    """Return why torchrun's own parser refuses ``words``, or None; it runs in a child, since it imports torch."""
    code = "import json, sys; from torch.distributed.run import parse_args; parse_args(json.load(sys.stdin))"
    child = run_child([sys.executable, "-c", code], stdin=json.dumps(words), timeout_s=_DEADLINE_S)
    return None if child.status == "ok" else f"torchrun: {child.reason}"
