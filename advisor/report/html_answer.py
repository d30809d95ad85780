"""A recommendation as a piece of a page: verdict, numbers, pictures, reasons, runners-up, what was refused, the arithmetic."""

from __future__ import annotations

from typing import Any

from advisor.report.markup import Markup, h, join, table
from advisor.report.recommend import energy_and_cost, interval_text, plan_text, search_text
from advisor.report.svg_charts import bars
from advisor.units import GIB, format_bytes, format_rate, format_seconds

Document = dict[str, Any]


def answer_block(document: Document) -> Markup:
    """Return the answer of ``advisor recommend`` as markup."""
    best = document["recommendation"]
    kind = "yes" if document["feasible"] else "no"
    parts: list[Any] = [h("p", document["verdict"], class_=f"verdict {kind}"), _question(document)]
    if best is not None:
        parts += [_numbers(best), _pictures(best["estimate"])]
        parts += [h("h2", "Why"), h("ul", *(h("li", reason["text"]) for reason in best["why"]))]
        parts.append(_evidence(best["estimate"]))
        parts.append(_alternatives(document["alternatives"]))
    if document["rejected"]:
        parts += [h("h2", "Not possible"), h("ul", *(h("li", row["text"]) for row in document["rejected"]))]
    if document["nearest"]:
        parts += [h("h2", "What would do it"), h("ul", *(_way(row) for row in document["nearest"]))]
    if document.get("formulas"):
        rows = [[step["what"], step["formula"], step["numbers"]] for step in document["formulas"]]
        parts += [h("h2", "The arithmetic"), table(["what", "formula", "with the numbers"], rows, caption="The arithmetic")]
    parts += [h("p", f"Note: {note}", class_="soft") for note in document.get("notes", ())]
    return join(*parts, h("p", f"{search_text(document['search'])}.", class_="soft"))


def _question(document: Document) -> Markup:
    model, hardware = document["model"], document["hardware"]
    system = f" ({hardware['nodes']} × {hardware['system']})" if hardware.get("system") else ""
    assumed = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in document["assumed"].items())
    text = f"{model['name']}, {model['parameters'] / 1e9:.2f} B parameters, on {hardware['name']}{system}"
    return h("p", text + (f". Assumed: {assumed}." if assumed else "."), class_="soft")


def _numbers(best: Document) -> Markup:
    estimate, plan = best["estimate"], best["plan"]
    rows = [("plan", plan_text(plan))]
    timed = (("step_time_s", "step time"), ("latency_s", "latency"), ("ttft_s", "first token"), ("tpot_s", "per token"))
    rows += [(label, interval_text(estimate[key], format_seconds)) for key, label in timed if estimate[key] is not None]
    if estimate["throughput"] is not None:
        rows.append(("throughput", interval_text(estimate["throughput"], lambda v: format_rate(v, estimate["throughput_unit"]))))
    if estimate["mfu"] is not None:
        rows.append(("MFU", f"{100 * estimate['mfu']['value']:.1f} % of the dense peak"))
    if estimate["memory_bytes_per_device"] is not None:
        rows.append(("memory per device", interval_text(estimate["memory_bytes_per_device"], format_bytes)))
    rows += energy_and_cost(estimate)
    rows += [("bottleneck", estimate["bottleneck"].replace("_", " ")), ("plan id", best["plan_id"])]
    return h("dl", *(h("div", h("dt", label), h("dd", text)) for label, text in rows), class_="facts")


def parts_chart(title: str, parts: dict[str, float], write: Any) -> Markup | None:
    """Return the parts of a total as bars, the largest first; parts under half a percent are summed up as ``other``."""
    total = sum(parts.values())
    if total <= 0:
        return None
    large = sorted(((name, value) for name, value in parts.items() if value >= 0.005 * total), key=lambda item: -item[1])
    rest = total - sum(value for _, value in large)
    shown = [*large, ("other", rest)] if rest > 1e-9 * total else large
    rows = [{"name": name.replace("_", " "), "value": value} for name, value in shown]
    return bars(title, rows, lambda v: f"{write(v)}, {100 * v / total:.1f} %")


def _pictures(estimate: Document) -> Markup:
    time = parts_chart("Where the time goes", estimate["time_parts_s"], format_seconds)
    memory = parts_chart("Where the memory goes", estimate["memory_parts_bytes"], format_bytes)
    shown = [("Where the time goes", time), ("Where the memory goes", memory)]
    return join(*(join(h("h2", title), h("figure", picture, class_="scroll", tabindex="0")) for title, picture in shown if picture))


def _evidence(estimate: Document) -> Markup:
    count = len(estimate["measurements"])
    words = {
        "measured": "measured on this machine",
        "calibrated": "fitted on measurements of this product",
        "transferred": "fitted on measurements of related products",
        "spec": "data sheet and priors only",
    }
    rests = f" It rests on {count} stored measurement{'s' * (count != 1)}." if count else ""
    return h("p", h("strong", "Evidence: "), f"{estimate['evidence']} ({words[estimate['evidence']]}).{rests}")


def _alternatives(others: list[Document]) -> Markup | None:
    if not others:
        return None
    rows = []
    for row in others:
        estimate = row["estimate"]
        time = estimate["step_time_s"] or estimate["latency_s"]
        memory = estimate["memory_bytes_per_device"]
        rows.append(
            [
                row["family"],
                plan_text(row["plan"]),
                format_seconds(time["value"]) if time else "?",
                f"{memory['value'] / GIB:.1f}" if memory else "?",
                ("tie: " if row["tie"] else "") + (row["loses"] or ""),
            ]
        )
    titles = ["family", "plan", "time", "GiB/device", "against the best"]
    return join(h("h2", "Runners-up"), table(titles, rows, numeric=(2, 3), caption="Runners-up"))


def _way(row: Document) -> Markup:
    estimate = row["estimate"]
    time = estimate["step_time_s"] or estimate["latency_s"]
    speed = f": {format_seconds(time['value'])}" if time else ""
    return h("li", h("strong", row["change"]), f"{speed}; {plan_text(row['plan'])}")
