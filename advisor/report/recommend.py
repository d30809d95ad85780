"""A recommendation as people read it: the verdict, the number, the reason, the next best, and what to type."""

from __future__ import annotations

from typing import Any

from advisor.report.console import console
from advisor.units import GIB, format_bytes, format_energy, format_rate, format_seconds

_BAR = 24


def render_recommendation(document: dict[str, Any]) -> None:
    """Print an answer of ``advisor recommend``."""
    from rich.markup import escape

    out = console()
    style = "bold green" if document["feasible"] else "bold red"
    out.print(f"[{style}]{escape(document['verdict'])}[/]")
    model, hardware = document["model"], document["hardware"]
    out.print(
        f"{escape(model['name'])}: {model['parameters'] / 1e9:.2f} B parameters · {escape(hardware['name'])}"
        + (f" ({hardware['nodes']} × {hardware['system']})" if hardware.get("system") else "")
        + (f" · assumed: {_assumed(document['assumed'])}" if document["assumed"] else "")
    )
    best = document["recommendation"]
    if best is not None:
        out.print()
        _print_estimate(out, best)
        out.print()
        print_reasons(out, best["why"])
        _print_alternatives(out, best, document["alternatives"])
    print_formulas(out, document.get("formulas", []))
    _print_rejected(out, document["rejected"], document["feasible"])
    _print_nearest(out, document["nearest"])
    for note in document["notes"]:
        out.print(f"note: {escape(note)}")
    out.print(f"[dim]{search_text(document['search'])}[/]")
    if document["next"]:
        out.print(f"[dim]next: {escape(' · '.join(document['next']))}[/]")


#: Reasons for the choice itself; the others are advice on running it and are printed apart.
_CHOICE = (
    "MEASURED", "MEMORY", "TIGHT", "BOTTLENECK", "PRECISION", "PARALLELISM", "TIE", "QUANTIZATION", "UNVERIFIED", "RECOMPUTE", "BATCH-KNEE",
    "BATCH-CHOSEN", "SERVING", "KV-BUDGET", "EVIDENCE", "PUBLISHED",
)  # fmt: skip


def print_reasons(out: Any, reasons: list[dict[str, Any]]) -> None:
    """Print why the plan was chosen, then what to know when running it."""
    from rich.markup import escape

    for reason in reasons:
        if reason["code"] in _CHOICE:
            out.print(f"  • {escape(reason['text'])}")
    rest = [reason for reason in reasons if reason["code"] not in _CHOICE]
    if rest:
        out.print()
        out.print("[bold]To run it[/]")
        for reason in rest:
            out.print(f"  • {escape(reason['text'])}")


def _assumed(assumed: dict[str, Any]) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in assumed.items())


def interval_text(value: dict[str, float] | None, write: Any) -> str:
    """Write a value with its 80 % interval, or ``unknown``."""
    if value is None:
        return "unknown"
    return f"{write(value['value'])} (80 %: {write(value['low'])} to {write(value['high'])})"


def _print_estimate(out: Any, candidate: dict[str, Any]) -> None:
    plan, estimate = candidate["plan"], candidate["estimate"]
    rows = [("plan", plan_text(plan))]
    timed = "step_time_s" if estimate["step_time_s"] is not None else "latency_s"
    rows.append(("step time" if timed == "step_time_s" else "latency", interval_text(estimate[timed], format_seconds)))
    for key, label in (("ttft_s", "first token"), ("tpot_s", "per token")):
        if estimate[key] is not None:
            rows.append((label, interval_text(estimate[key], format_seconds)))
    if candidate.get("predicted"):
        rows.append(("predicted", interval_text(candidate["predicted"][timed], format_seconds)))
    if estimate["throughput"] is not None:
        rows.append(("throughput", interval_text(estimate["throughput"], lambda v: format_rate(v, estimate["throughput_unit"]))))
    if estimate["throughput"] is not None and plan["devices"] > 1:
        rows.append(("per device", format_rate(estimate["throughput"]["value"] / plan["devices"], estimate["throughput_unit"])))
    if estimate["mfu"] is not None:
        rows.append(("MFU", f"{100 * estimate['mfu']['value']:.1f} % of the dense peak"))
    if estimate["memory_bytes_per_device"] is not None:
        rows.append(("memory", interval_text(estimate["memory_bytes_per_device"], format_bytes) + " per device"))
    rows += energy_and_cost(estimate)
    for label, text in rows:
        out.print(f"  {label:<11} {text}")
    print_parts(out, "time", estimate["time_parts_s"], format_seconds)
    print_parts(out, "memory", estimate["memory_parts_bytes"], format_bytes)


def energy_and_cost(estimate: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (label, text) of the energy and the cost of a step or a batch, where they are known."""
    rows = []
    if estimate["energy_j"] is not None:
        rows.append(("energy", format_energy(estimate["energy_j"]["value"])))
    if estimate["cost_usd"] is not None:
        rows.append(("cost", f"{estimate['cost_usd']['value']:.3g} USD"))
    return rows


def search_text(search: dict[str, Any]) -> str:
    """Return how the answer was found, in one line."""
    text = f"{search['space_size']:,} legal plans priced, {search['trials']} tried by {search['engine']}, {search['seconds']:.1f} s"
    least = search["details"].get("exhaustive_best_over_answer")
    if least is not None:
        text += "; all compared one by one: " + (
            "none is better" if least >= 1.0 else f"the best is {100 * (1.0 - least):.2f} % better, a tie"
        )
    return text


def print_parts(out: Any, title: str, parts: dict[str, float], write: Any) -> None:
    """Print named parts as bars, the largest first; parts under half a percent are summed up as ``other``."""
    total = sum(parts.values())
    if total <= 0:
        return
    small = {name for name, value in parts.items() if value < 0.005 * total}
    shown = sorted(((n, v) for n, v in parts.items() if n not in small and v > 0), key=lambda kv: -kv[1])
    rest = sum(parts[name] for name in small)
    if rest > 0:
        shown.append(("other", rest))
    out.print(f"  {title}")
    for name, value in shown:
        bar = "█" * max(1 if value > 0.02 * total else 0, round(_BAR * value / total))
        out.print(f"    {name.replace('_', ' '):<22} {write(value):>10}  {100 * value / total:5.1f} %  [cyan]{bar}[/]")


def plan_text(plan: dict[str, Any]) -> str:
    """Return a plan in one line."""
    words = [plan["framework"], plan["execution"], plan["precision"]]
    if plan["quantization"] != "none":
        words.append(plan["quantization"])
    degrees = " · ".join(f"{name} {plan[name]}" for name in ("dp", "tp", "pp", "vpp", "cp", "ep") if plan[name] > 1)
    if degrees:
        words.append(degrees)
    if plan["sharding"] != "none":
        words.append(f"{plan['sharding']} over {plan['shard_degree']}")
    words.append(f"micro-batch {plan['micro_batch']} × {plan['grad_accumulation']} = batch {plan['global_batch']}")
    if plan["sequence_parallel"]:
        words.append("sequence parallel")
    if plan["recompute"] != "none":
        words.append(f"{plan['recompute']} recompute")
    if plan["offload"] != "none":
        words.append(f"offload {plan['offload']}")
    if plan["adapter"] != "none":
        words.append(f"{plan['adapter']} rank {plan['adapter_rank']}")
    if plan["threads"] > 1:
        words.append(f"{plan['threads']} threads")
    return ", ".join(words)


def print_formulas(out: Any, steps: list[dict[str, str]]) -> None:
    """Print the arithmetic with its numbers; nothing where there is none."""
    from rich.markup import escape

    if steps:
        out.print()
        out.print("[bold]The arithmetic[/]")
    for step in steps:
        out.print(f"  {escape(step['what'])}: {escape(step['formula'])}")
        out.print(f"    {escape(step['numbers'])}")


def _print_alternatives(out: Any, best: dict[str, Any], others: list[dict[str, Any]]) -> None:
    from rich.table import Table

    if not others:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", title="Runners-up", title_justify="left", title_style="bold")
    for name in ("", "family", "plan", "time", "GiB/device", "against the best"):
        table.add_column(name, justify="right" if name in ("time", "GiB/device") else "left", overflow="fold")
    for row in others:
        estimate = row["estimate"]
        time = estimate["step_time_s"] or estimate["latency_s"]
        memory = estimate["memory_bytes_per_device"]
        table.add_row(
            "=" if row["tie"] else "",
            row["family"],
            plan_text(row["plan"]),
            format_seconds(time["value"]) if time else "?",
            f"{memory['value'] / GIB:.1f}" if memory else "?",
            row["loses"] or "",
        )
    out.print()
    out.print(table)


def _print_rejected(out: Any, rejected: list[dict[str, Any]], feasible: bool) -> None:
    from rich.markup import escape

    if not rejected:
        return
    out.print()
    out.print("[bold]Not possible[/]")
    for row in rejected:
        out.print(f"  ✗ {escape(row['text'])}")


def _print_nearest(out: Any, nearest: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    if not nearest:
        return
    out.print()
    out.print("[bold]What would do it[/]")
    for row in nearest:
        estimate = row["estimate"]
        time = estimate["step_time_s"] or estimate["latency_s"]
        memory = estimate["memory_bytes_per_device"]
        numbers = ", ".join(
            text
            for text in (
                format_seconds(time["value"]) + (" a step" if estimate["step_time_s"] else " a batch") if time else "",
                f"{format_bytes(memory['value'])} per device" if memory else "",
            )
            if text
        )
        out.print(f"  → {escape(row['change'])}: {numbers}; {escape(plan_text(row['plan']))}")
