"""Explain an earlier answer: the stored plan with the formulas that priced it, the numbers put in."""

from __future__ import annotations

from typing import Any

from advisor.errors import UsageError
from advisor.usecases.better_hardware import stored_better_hardware


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
    lines, unknown = stored_better_hardware(document, stored["plan"])
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
        "counterfactuals": lines,
        "counterfactuals_reason": unknown,
        "formulas": formulas(document, stored["plan"], stored["estimate"]),
    }


#: Bytes a parameter that stay whole on every rank, and those that are divided by the shard degree (bf16 with Adam; ZeRO, section 3.1).
_STATES = {"zero1": (4, 12), "zero2": (2, 14), "zero3": (0, 16), "fsdp": (0, 16), "hsdp": (0, 16)}


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
        sharded = _STATES.get(plan["sharding"])
        if sharded is not None and plan["adapter"] == "none" and plan["shard_degree"] > 1:
            whole, split = sharded
            local, degree = parameters / (plan["tp"] * plan["pp"]), plan["shard_degree"]
            each = whole * local + split * local / degree
            add(
                f"model states under {plan['sharding']}, a device",
                f"{whole} · P + {split} · P / n  with P the parameters of a device's layers, n the shard degree (ZeRO, section 3)",
                f"{whole} · {local:.4g} + {split} · {local:.4g} / {degree} = {each / 2**30:.1f} GiB",
            )
        sizes = document["model"].get("transformer") or {}
        hidden, layers = sizes.get("hidden"), sizes.get("layers")
        mfu, step = estimate.get("mfu"), estimate.get("step_time_s")
        if hidden and layers and mfu and step and plan["adapter"] == "none":
            rate = tokens / step["value"]
            add(
                "model FLOPs a second and device",
                "(6 · parameters + 12 · layers · hidden · sequence) · tokens/s / devices; over the dense peak it is the MFU "
                "(Chowdhery et al. 2022)",
                f"(6 · {parameters:.4g} + 12 · {layers} · {hidden} · {seq}) · {rate:,.0f} / {plan['devices']} = "
                f"{(6 * parameters + 12 * layers * hidden * seq) * rate / plan['devices'] / 1e12:.1f} TFLOP/s, MFU "
                f"{100 * mfu['value']:.1f} %",
            )
    sizes = document["model"].get("transformer") or {}
    if not training and document["model"]["kind"] == "decoder" and sizes and not sizes.get("kv_lora_rank"):
        width = 1 if "fp8" in (plan["quantization"], plan["precision"]) else 4 if plan["precision"] in ("fp32", "tf32") else 2
        each = 2 * sizes["layers"] * sizes["kv_heads"] * sizes["head_dim"] * width
        add(
            "key-value cache of one token",
            "2 · layers · kv_heads · head_dim · bytes  (of all tensor-parallel ranks together)",
            f"2 · {sizes['layers']} · {sizes['kv_heads']} · {sizes['head_dim']} · {width} = {each / 2**20:.3f} MiB",
        )
    for title, key, unit, factor in (("time", "time_parts_s", "s", 1.0), ("memory", "memory_parts_bytes", "GiB", 1 / 2**30)):
        parts = {name: value * factor for name, value in estimate[key].items() if value > 0}
        if parts:
            total = " + ".join(f"{value:.3g} {name.replace('_', ' ')}" for name, value in sorted(parts.items(), key=lambda kv: -kv[1]))
            add(title, "the sum of its parts", f"{total} = {sum(parts.values()):.4g} {unit}")
    return steps
