"""Checks that the formats share: values that must be the plan's, and the plan's own arithmetic."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from advisor.export._spec import Answer


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each entry of ``expected`` that ``found`` lacks or says otherwise; numbers are compared as numbers."""
    problems = []
    for name, value in expected.items():
        if name not in found:
            problems.append(f"{name} is missing, the plan says {value}")
        elif not same(found[name], value):
            problems.append(f"{name} is {found[name]}, the plan says {value}")
    return problems


def same(one: Any, other: Any) -> bool:
    """Tell whether two values mean the same: ``"8"`` and 8 do, True and 1 do not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return str(one).lower() == str(other).lower()
    if isinstance(other, int | float) and isinstance(one, int | float | str):
        try:
            return float(one) == float(other)
        except ValueError:
            return False
    return bool(one == other)


def arithmetic(answer: Answer) -> list[str]:
    """Return what contradicts itself in the plan: degrees, batch, and what tensor and pipeline parallelism must divide."""
    p, t = answer.plan, answer.transformer
    problems = []
    if p.dp * p.tp * p.pp * p.cp != p.devices:
        problems.append(f"dp {p.dp} · tp {p.tp} · pp {p.pp} · cp {p.cp} is not the {p.devices} devices")
    if answer.is_training and p.micro_batch * p.grad_accumulation * p.dp != p.global_batch:
        problems.append(
            f"micro-batch {p.micro_batch} · accumulation {p.grad_accumulation} · dp {p.dp} is not the global batch {p.global_batch}"
        )
    if answer.nodes * answer.processes_per_node != p.devices:
        problems.append(f"{p.devices} devices are not the same number on each of {answer.nodes} nodes")
    if t:
        problems += [f"{t[name]} {what} cannot be divided by tp {p.tp}" for name, what in _SPLIT if t[name] % p.tp]
        if t["layers"] % (p.pp * p.vpp):
            problems.append(f"{t['layers']} layers cannot be divided by pp {p.pp} · vpp {p.vpp}")
        if answer.is_training and t["kv_heads"] % p.tp:
            problems.append(f"{t['kv_heads']} key-value heads cannot be divided by tp {p.tp}")
    return problems


_SPLIT = (("heads", "attention heads"), ("ffn_hidden", "MLP columns"))


def literals(source: str, *names: str) -> tuple[dict[str, Any], list[str]]:
    """Return the literal values bound to ``names`` at the top of Python ``source``, and what is wrong with it."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        return {}, [f"not valid Python: {error}"]
    found: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names:
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                return found, [f"{node.targets[0].id} is not a literal"]
    return found, [f"{name} is missing" for name in names if name not in found]
