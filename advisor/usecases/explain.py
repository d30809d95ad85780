"""Explain an earlier answer: the stored plan with the formulas that priced it, the numbers put in."""

from __future__ import annotations

from typing import Any

from advisor.errors import UsageError


def explain(plan_id: str, database_url: str) -> dict[str, Any]:
    """Return the stored plan ``plan_id`` (or the only one that begins so), its estimate, and its formulas.

    UsageError if no stored answer has it.
    """
    from advisor.results.store import Store

    if not plan_id.strip():
        raise UsageError("a plan id is needed", "`advisor recommend` prints one", code="NO-PLAN")
    with Store.open(database_url) as store:
        stored = store.find_plan(plan_id.strip())
    if stored is None:
        raise UsageError(f"no stored answer has the plan {plan_id!r}", "`advisor recommend` prints the ids it stores", code="UNKNOWN-PLAN")
    document = stored["recommendation"]["document"]
    return {
        "schema_version": 1,
        "plan_id": stored["plan_id"],
        "model": document["model"],
        "hardware": document["hardware"],
        "task": document["task"],
        "workload": document["workload"],
        "assumed": document["assumed"],
        "plan": stored["plan"],
        "estimate": stored["estimate"],
        "why": stored.get("why") or [],
        "loses": stored.get("loses"),
        "formulas": formulas(document, stored["plan"], stored["estimate"]),
    }


def formulas(document: dict[str, Any], plan: dict[str, Any], estimate: dict[str, Any]) -> list[dict[str, str]]:
    """Return the arithmetic a reader can redo by hand: what is computed, the formula, and the numbers in it."""
    steps: list[dict[str, str]] = []
    parameters = document["model"]["parameters"]
    seq = document["workload"]["seq_len"]

    def add(what: str, formula: str, numbers: str) -> None:
        steps.append({"what": what, "formula": formula, "numbers": numbers})

    add("devices", "dp · tp · pp · cp", f"{plan['dp']} · {plan['tp']} · {plan['pp']} · {plan['cp']} = {plan['devices']}")
    add(
        "batch",
        "micro_batch · grad_accumulation · dp",
        f"{plan['micro_batch']} · {plan['grad_accumulation']} · {plan['dp']} = {plan['global_batch']}",
    )
    if plan["pp"] > 1:
        bubble = (plan["pp"] - 1) / (plan["grad_accumulation"] * plan["vpp"])
        add(
            "pipeline bubble",
            "(pp − 1) / (micro-batches · vpp)  (Narayanan et al. 2021, section 2.2)",
            f"({plan['pp']} − 1) / ({plan['grad_accumulation']} · {plan['vpp']}) = {100 * bubble:.1f} % of the ideal time",
        )
    training = document["task"] in ("train", "finetune")
    if training and seq and document["model"]["kind"] != "convolutional":
        tokens = plan["global_batch"] * seq
        flops = 6.0 * document["model"]["active_parameters"] * tokens
        add(
            "arithmetic, roughly",
            "6 · parameters · tokens  (Kaplan et al. 2020, section 2.1; attention apart)",
            f"6 · {parameters:.4g} · {tokens:,} = {flops / 1e15:.4g} PFLOP a step",
        )
        add(
            "model states, unsharded",
            "16 B · parameters  (Rajbhandari et al. 2020, section 3.1)",
            f"16 · {parameters:.4g} = {16 * parameters / 1e9:.1f} GB",
        )
    for title, key, unit, factor in (("time", "time_parts_s", "s", 1.0), ("memory", "memory_parts_bytes", "GiB", 1 / 2**30)):
        parts = {name: value * factor for name, value in estimate[key].items() if value > 0}
        if parts:
            total = " + ".join(f"{value:.3g} {name.replace('_', ' ')}" for name, value in sorted(parts.items(), key=lambda kv: -kv[1]))
            add(title, "the sum of its parts", f"{total} = {sum(parts.values()):.4g} {unit}")
    return steps
