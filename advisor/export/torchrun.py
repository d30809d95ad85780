"""torchrun: a launch command, and a script that runs the plan with torch alone."""

from __future__ import annotations

from advisor.export import _rules, _torch_script
from advisor.export._launch import check_torchrun, launch_notes, torchrun_words
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import Raw, command, script

_TARGETS = "torchrun of torch 2.6 to 2.13"


def _program(answer: Answer) -> str:
    return "train.py" if answer.is_training else "infer.py"


def write(answer: Answer) -> Files:
    """Return run.sh and the script it starts."""
    words = [*torchrun_words(answer), _program(answer), Raw('"$@"')]
    body = f'export OMP_NUM_THREADS="${{OMP_NUM_THREADS:-{max(1, answer.plan.threads)}}}"\nexec {command(words)}'
    build = _torch_script.train_script if answer.is_training else _torch_script.infer_script
    return {"run.sh": script(answer, _TARGETS, body, *launch_notes(answer)), _program(answer): build(answer, _TARGETS)}


def check(files: Files, answer: Answer) -> Checked:
    """Parse the command with torchrun's own parser where torch is installed; compare world size and plan; compile the script."""
    name = _program(answer)
    _, validators, problems = check_torchrun(files["run.sh"], answer, name)
    problems += _rules.arithmetic(answer)
    if "OMP_NUM_THREADS=" not in files["run.sh"]:
        problems.append("run.sh does not set OMP_NUM_THREADS: torchrun then gives each process one thread")
    found, wrong = _rules.literals(files[name], "PLAN", "MODEL")
    problems += [f"{name}: {text}" for text in wrong]
    for key, expected in _torch_script.settings(answer).items():
        if isinstance(found.get(key), dict):
            problems += [f"{name}: {key}: {text}" for text in _rules.differences(found[key], expected)]
    return Checked(validators=(*validators, "Python's parser", "our rules"), problems=tuple(problems))


EXPORTER = Exporter(
    name="torchrun",
    title="torchrun command and a self-contained torch script",
    targets=_TARGETS,
    obstacle=_torch_script.obstacle,
    write=write,
    check=check,
)
