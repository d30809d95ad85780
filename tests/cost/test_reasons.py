"""Counterfactuals: a better part never makes a plan slower, and the part that binds helps most."""

from __future__ import annotations

from advisor.cost.reasons import counterfactual_lines, counterfactuals
from advisor.hardware.spec import parse_spec
from advisor.hardware.topology import platform_for
from advisor.model.registry import model
from advisor.plan.records import Plan, Workload
from advisor.plan.table import PlanTable
from advisor.usecases.calibration import load_calibration

K = load_calibration()
GPT = model("gpt-1.3b")


def test_each_change_helps_and_they_are_sorted() -> None:
    plan = Plan(
        framework="megatron", execution="eager", precision="bf16", dp=16, devices=16, micro_batch=1, grad_accumulation=4, global_batch=64
    )
    work = Workload(task="train", seq_len=2048, global_batch=64)
    found = counterfactuals(GPT, work, platform_for(parse_spec("16xa100-sxm4-80gb")), PlanTable.of([plan]), K)[0]
    assert {c.code for c in found} == {"network-2x", "fabric-2x", "memory-2x", "compute-2x"}
    assert all(-0.55 < c.change <= 1e-9 for c in found)
    assert [c.change for c in found] == sorted(c.change for c in found)
    assert found[0].code == "compute-2x"
    assert found[0].text.endswith("%")


def test_what_a_machine_lacks_is_not_offered() -> None:
    plan = Plan(framework="torch", execution="eager", precision="bf16", global_batch=8, grad_accumulation=8)
    work = Workload(task="train", seq_len=1024, global_batch=8)
    found = counterfactuals(GPT, work, platform_for(parse_spec("1xa100-sxm4-80gb")), PlanTable.of([plan]), K)[0]
    assert {c.code for c in found} == {"memory-2x", "compute-2x"}


def test_lines_leave_out_what_changes_nothing() -> None:
    plan = Plan(framework="torch", execution="eager", precision="bf16", global_batch=8, grad_accumulation=8)
    work = Workload(task="train", seq_len=1024, global_batch=8)
    platform = platform_for(parse_spec("1xa100-sxm4-80gb"))
    lines = counterfactual_lines(GPT, work, platform, plan, K)
    told = [c.text for c in counterfactuals(GPT, work, platform, PlanTable.of([plan]), K)[0]]
    assert lines == told[: len(lines)]
    assert lines
    assert lines[0].startswith("with twice")
    assert not any("network" in line for line in lines)
