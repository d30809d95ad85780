"""Models for people."""

from __future__ import annotations

import textwrap
from typing import Any

from advisor.report.console import console


def render_models(document: dict[str, Any]) -> None:
    """Print the document of ``advisor models list``."""
    out = console()
    rows = document["models"]
    if not rows:
        out.print("No model matches; `advisor models list` shows all.", markup=False)
        return
    width = max(len(row["name"]) for row in rows)
    out.print(
        f"{'model':{width}}  {'family':13} {'parameters':>12} {'forward FLOPs':>17} {'KV cache':>15}  length", style="bold", markup=False
    )
    for row in rows:
        text = f"{row['name']:{width}}  {row['family']:13} {_count(row['parameters']):>12} {_flops(row):>17} {_kv(row):>15}  {_length(row)}"
        out.print(text, markup=False)
    noun = "model" if len(rows) == 1 else "models"
    out.print(
        f"\n{len(rows)} {noun}; `advisor models show NAME` has the sizes and the source. A config.json works in place of a name.",
        markup=False,
    )


def render_model(document: dict[str, Any]) -> None:
    """Print the document of ``advisor models show``."""
    out = console()
    out.print(f"{document['name']}: {document['parameters']:,} parameters", style="bold", markup=False)
    for label, value in _facts(document):
        for index, line in enumerate(textwrap.wrap(value, 96) or [""]):
            out.print(f"{label if index == 0 else '':18}{line}", markup=False)
    out.print(f"\n{'block':26} {'repeat':>6} {'parameters of one':>18}  operators", style="bold", markup=False)
    for block in document["blocks"]:
        names = ", ".join(dict.fromkeys(op.get("name", "attention") for op in block["operators"] if op["kind"] != "elementwise"))
        names = f"{names[:57]}..." if len(names) > 60 else names
        out.print(f"{block['name'][:26]:26} {block['repeat']:>6} {block['parameters']:>18,}  {names}", markup=False)
    if document["ignored_fields"]:
        out.print(f"\nnot understood, and left out: {', '.join(document['ignored_fields'])}", style="yellow", markup=False)


def _facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [("family", f"{document['family']} ({document['kind']})")]
    t = document["transformer"]
    if t is not None:
        sizes = f"{t['layers']} layers, hidden {t['hidden']}, {t['heads']} heads of {t['head_dim']}"
        if t["kv_lora_rank"]:
            sizes += f", latent of {t['kv_lora_rank']} + {t['rope_head_dim'] or 0}"
        elif t["kv_heads"] != t["heads"]:
            sizes += f", {t['kv_heads']} key-value heads"
        sizes += f", feed-forward {t['ffn_hidden']}" + (" (gated)" if t["gated_mlp"] else "")
        if t["encoder_layers"]:
            sizes = f"{t['encoder_layers']} encoder layers and " + sizes
        facts.append(("sizes", sizes))
        if t["experts"] > 1:
            shared = f", {t['shared_experts']} shared" if t["shared_experts"] else ""
            facts.append(
                ("experts", f"{t['experts']}, {t['experts_per_token']} a token{shared}; width {t['moe_ffn_hidden'] or t['ffn_hidden']}")
            )
        if t["vocab"] > 1:
            facts.append(("vocabulary", f"{t['vocab']:,}" + (", tied with the head" if t["tied_embeddings"] else "")))
    if document["active_parameters"] is not None:
        facts.append(("active", f"{document['active_parameters']:,} parameters a token"))
    facts.append(("length", _length(document)))
    full, causal = document["forward_flops"], document["forward_flops_causal"]
    work = f"{_si(full)}FLOP for one {document['sample']}"
    if causal != full:
        work += f" ({_si(causal)}FLOP counting only the pairs the mask lets through)"
    if document["sample"] == "sequence":
        work += f"; {_flops(document)} at {document['flops_seq']:,} tokens"
    facts.append(("forward pass", work))
    if document["kv_bytes_per_token"]:
        facts.append(("KV cache", f"{_kv(document)} at 16 bits"))
    if not document["fp16_safe"]:
        facts.append(("precision", "activations overflow fp16: use bf16 or fp32"))
    if document["aliases"]:
        facts.append(("also known as", ", ".join(document["aliases"])))
    facts.append(("source", document["source"] or "unknown"))
    return facts


def _count(number: float) -> str:
    for limit, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= limit:
            return f"{number / limit:.2f} {unit}"
    return f"{number:.0f}"


def _si(number: float) -> str:
    for limit, unit in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.2f} {unit}"
    return f"{number:.0f} "


def _flops(row: dict[str, Any]) -> str:
    return f"{_si(row['forward_flops_per_token'])}FLOP/{'image' if row['sample'] == 'image' else 'token'}"


def _kv(row: dict[str, Any]) -> str:
    return f"{row['kv_bytes_per_token'] / 1024:,.1f} KiB/token" if row["kv_bytes_per_token"] else "none"


def _length(row: dict[str, Any]) -> str:
    if row["resolution"] is not None:
        return f"{row['resolution']} px" + (f", {row['default_seq']} tokens" if row["default_seq"] > 1 else "")
    return f"{row['default_seq']:,} tokens"
