"""Every framework on this machine: GEMM and whole networks, each in the environment it needs; those that cannot run say why.

    python benchmarks/frameworks                       create what is missing (some 8 GB with all of them), measure, print the table
    python benchmarks/frameworks --no-create           measure what is there
    python benchmarks/frameworks --only tvm,litert     these alone
    python benchmarks/frameworks --budget 900 --json   more time for the measurements; a document

Environments are those of ``advisor env`` (below ADVISOR_HOME). Exits with 1 if fewer than eight frameworks give both kinds of number.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from advisor.errors import AdvisorError
from advisor.usecases import bench, env
from microbench.benchmarks.model import BERT_BASE, GPT_SMALL, RESNET_50

#: Frameworks, by backend. numpy, native and the readers of data are no frameworks; tensorflow-xla is a way to run one.
FRAMEWORKS = ("torch", "jax", "onnxruntime", "openvino", "tensorflow", "litert", "tvm", "mindspore", "executorch", "tensorrt", "triton")
WANTED = 8
#: A square, and a layer of a language model with few rows, where frameworks differ most.
SHAPES = ([1024, 1024, 1024], [8, 4096, 4096])
NETWORKS: dict[str, dict[str, Any]] = {
    "bert-base": {"network": BERT_BASE, "seq": 128},
    "resnet-50": {"network": RESNET_50, "resolution": 224},
    "small gpt": {"network": GPT_SMALL, "seq": 128},
}
#: Seconds for a framework, all rounds together: compilers take most of it.
SECONDS = 60.0


def created(names: Sequence[str]) -> dict[str, str]:
    """Create the environments of backends that are not here; return why for those that cannot be."""
    known = bench.catalogue()["backends"]
    failed: dict[str, str] = {}
    for name in names:
        if known[name]["present"] or known[name]["managed"]:
            continue
        try:
            env.create([name], lambda text: print(text, file=sys.stderr))
        except AdvisorError as error:
            failed[name] = error.message
    return failed


def measured(names: Sequence[str], budget_s: float) -> list[dict[str, Any]]:
    """Return the measurements of all frameworks, their rounds interleaved."""
    networks = [{**network, "batch": 1, "mode": "infer", "quantization": "none"} for network in NETWORKS.values()]
    with tempfile.TemporaryDirectory() as folder:
        shapes = Path(folder) / "shapes.json"
        shapes.write_text(json.dumps(SHAPES))
        found = bench.bench(
            ["gemm", "model"], backends=names, dtypes=["fp32"], device="cpu0", shapes=str(shapes), networks=networks, quick=True,
            budget_s=budget_s, save=False, on_progress=lambda step: print(f"{step.done}/{step.total} {step.label}", file=sys.stderr),
        )  # fmt: skip
    rows: list[dict[str, Any]] = bench.document(found)["measurements"]
    return rows


def column(row: dict[str, Any]) -> str:
    """Return the column a measurement belongs to."""
    if row["benchmark"] == "gemm":
        return "x".join(str(row["params"][name]) for name in "mnk")
    return next(name for name, network in NETWORKS.items() if network["network"] == row["params"]["network"])


def summary(names: Sequence[str], rows: Sequence[dict[str, Any]], failed: dict[str, str]) -> list[dict[str, Any]]:
    """Return a row a framework: version, environment, the best variant in each column with its state, or the reason there is none."""
    lines = []
    for name in names:
        mine = [row for row in rows if row["backend"] == name]
        best: dict[str, dict[str, Any]] = {}
        for row in mine:
            if row["value"] is None:
                continue
            speed = row["value"] if row["metric"] == "flops_per_s" else 1 / row["value"]
            held = best.get(column(row))
            if held is None or speed > held["speed"]:
                variant = row["params"].get("weight") or row["params"].get("execution")
                best[column(row)] = {"speed": speed, "value": row["value"], "status": row["status"], "variant": variant}
        reasons = list(dict.fromkeys(row["reason"] for row in mine if row["value"] is None and row["reason"]))
        lines.append(
            {
                "framework": name,
                "version": next((row["backend_version"] for row in mine if row["backend_version"]), None),
                "environment": next((row["conditions"].get("managed_environment") for row in mine if row["value"]), None),
                "best": best,
                "both": any("x" in key for key in best) and any(key in NETWORKS for key in best),
                "reason": failed.get(name) or "; ".join(reasons)[:300] or None,
            }
        )
    return lines


def table(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table; GFLOP/s and milliseconds; ``*`` marks what others disturbed."""
    shapes = ["x".join(map(str, shape)) for shape in SHAPES]
    head = ["framework", "version", "environment", *(f"{shape} GFLOP/s" for shape in shapes), *(f"{name} ms" for name in NETWORKS)]
    out = ["| " + " | ".join(head) + " |", "|---|---|---|" + "---:|" * (len(head) - 3)]
    for line in lines:
        cells = []
        for key, scale in [*((shape, 1e-9) for shape in shapes), *((name, 1e3) for name in NETWORKS)]:
            held = line["best"].get(key)
            cells.append("-" if held is None else f"{held['value'] * scale:.1f}{'' if held['status'] == 'ok' else '*'} {held['variant']}")
        where = (line["environment"] or "the advisor's") if line["best"] else "-"
        out.append("| " + " | ".join([line["framework"], line["version"] or "-", where, *cells]) + " |")
    return out


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="backends, separated by commas")
    parser.add_argument("--no-create", action="store_true")
    parser.add_argument("--budget", type=float, help=f"seconds for all measurements (default {SECONDS:g} a framework)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else FRAMEWORKS
    failed = {} if options.no_create else created(names)
    lines = summary(names, measured(names, options.budget or SECONDS * len(names)), failed)
    both = sum(line["both"] for line in lines)
    if options.json:
        print(json.dumps({"frameworks": lines, "both": both}, indent=1))
    else:
        print("\n".join(table(lines)))
        for line in lines:
            if line["reason"] and not line["both"]:
                print(f"{line['framework']}: {line['reason']}")
        print(f"{both} frameworks give GEMM and networks (bar: {WANTED}). * others used the CPUs while it was measured.")
    return 0 if both >= WANTED or options.only else 1


if __name__ == "__main__":
    sys.exit(main())
