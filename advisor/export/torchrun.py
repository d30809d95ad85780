"""torchrun: a launch command, and a script that runs the plan with torch alone."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from advisor.export import _rules, _torch_script
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import Raw, command, options, script, shell_words
from microbench.child import run_child

_TARGETS = "torchrun of torch 2.6 to 2.13"
_DEADLINE_S = 120.0

#: Options of torchrun that take a value (torch.distributed.run, torch 2.13), for a machine without torch.
_KNOWN = {
    "--nnodes", "--nproc-per-node", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf", "--standalone", "--max-restarts",
    "--monitor-interval", "--start-method", "--role", "--module", "--no-python", "--run-path", "--log-dir", "--redirects", "--tee",
    "--local-ranks-filter", "--node-rank", "--master-addr", "--master-port", "--local-addr", "--logs-specs", "--numa-binding",
}  # fmt: skip


def obstacle(answer: Answer) -> str | None:
    """Return why the plan cannot be run by torch alone, or None."""
    return _torch_script.obstacle(answer)


def _program(answer: Answer) -> str:
    return "train.py" if answer.is_training else "infer.py"


def write(answer: Answer) -> Files:
    """Return run.sh and the script it starts."""
    words = ["torchrun", f"--nnodes={answer.nodes}", f"--nproc-per-node={answer.processes_per_node}"]
    if answer.nodes == 1:
        words.append("--standalone")
    else:
        words += ["--rdzv-backend=c10d", Raw('--rdzv-endpoint="${MASTER_ADDR:?set MASTER_ADDR to the first node}:${MASTER_PORT:-29500}"')]
        words.append(Raw(f'--rdzv-id="${{JOB_ID:-{answer.plan_id}}}"'))
    words += ["--max-restarts=0", _program(answer), Raw('"$@"')]
    body = f'export OMP_NUM_THREADS="${{OMP_NUM_THREADS:-{max(1, answer.plan.threads)}}}"\nexec {command(words)}'
    notes = [] if answer.nodes == 1 else [f"Run it on each of the {answer.nodes} nodes, MASTER_ADDR being the first."]
    build = _torch_script.train_script if answer.is_training else _torch_script.infer_script
    return {"run.sh": script(answer, _TARGETS, body, *notes), _program(answer): build(answer, _TARGETS)}


def check(files: Files, answer: Answer) -> Checked:
    """Parse the command with torchrun's own parser where torch is installed; compare world size and plan; compile the script."""
    problems = _rules.arithmetic(answer)
    validators = ["our rules"]
    try:
        words = shell_words(files["run.sh"], "torchrun")
    except ValueError as error:
        words, problems = [], [*problems, f"run.sh: {error}"]
    if words is None:
        problems.append("run.sh does not start torchrun")
    elif words:
        problems += _command(words, answer)
        if find_spec("torch") is not None:
            validators.insert(0, "torch.distributed.run.parse_args")
            problems += _parsed(words[1:])
    if "OMP_NUM_THREADS" not in files["run.sh"]:
        problems.append("run.sh does not set OMP_NUM_THREADS: torchrun then gives each process one thread")
    name = _program(answer)
    found, wrong = _rules.literals(files[name], "PLAN", "MODEL")
    problems += [f"{name}: {text}" for text in wrong]
    for key, expected in _torch_script.settings(answer).items():
        if isinstance(found.get(key), dict):
            problems += [f"{name}: {key}: {text}" for text in _rules.differences(found[key], expected)]
    return Checked(validators=tuple(validators), problems=tuple(problems))


def _command(words: list[str], answer: Answer) -> list[str]:
    given = options(words[1:])
    problems = [f"torchrun has no option {name}" for name in given if name.replace("_", "-") not in _KNOWN]
    given = {name.replace("_", "-"): value for name, value in given.items()}
    nodes, each = given.get("--nnodes"), given.get("--nproc-per-node")
    if not (nodes or "").isdigit() or not (each or "").split(" ")[0].isdigit():
        return [*problems, "run.sh needs --nnodes and --nproc-per-node as numbers"]
    world = int(str(nodes)) * int(str(each).split(" ")[0])
    if world != answer.plan.devices:
        problems.append(f"{nodes} nodes of {each} processes are {world}, the plan has {answer.plan.devices}")
    if _program(answer) not in words:
        problems.append(f"run.sh does not run {_program(answer)}")
    return problems


def _parsed(words: list[str]) -> list[str]:
    code = "import json, sys; from torch.distributed.run import parse_args; parse_args(json.load(sys.stdin))"
    import json

    child = run_child([sys.executable, "-c", code], stdin=json.dumps(words), timeout_s=_DEADLINE_S)
    return [] if child.status == "ok" else [f"torchrun: {child.reason}"]


EXPORTER = Exporter(
    name="torchrun",
    title="torchrun command and a self-contained torch script",
    targets=_TARGETS,
    obstacle=obstacle,
    write=write,
    check=check,
)
