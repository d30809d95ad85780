"""Whole networks: seconds of one batch, forward only or one training step, with random weights that every framework shares.

``params``: ``network`` (see ``microbench.networks.weights``), ``batch``, ``seq`` or ``resolution``, ``mode`` (infer, train),
``execution`` (eager, compile, script, jit, graph), ``quantization`` (none, int8-dynamic). The dtype is the precision. A training
step is forward, backward and AdamW; below fp32 the weights stay fp32 and the products are narrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from microbench.networks.forward import forward, losses, numpy_conv
from microbench.networks.weights import complete, flops, make_inputs, make_weights
from microbench.plugin import Benchmark
from microbench.protocol import Case
from microbench.reference import WrongResult

BERT_BASE = {"kind": "encoder", "layers": 12, "hidden": 768, "heads": 12, "ffn_hidden": 3072, "vocab": 30522, "max_seq": 512}
RESNET_50 = {"kind": "resnet", "blocks": [3, 4, 6, 3], "width": 64, "classes": 1000}
#: A small GPT: as large as a training step on a CPU can be in a benchmark.
GPT_SMALL = {"kind": "decoder", "layers": 6, "hidden": 384, "heads": 6, "ffn_hidden": 1536, "vocab": 4096, "max_seq": 512}
#: Weights are the same in every round, so that a compiled or quantized network is; inputs are fresh.
WEIGHT_SEED = 20

#: Relative error (root mean square) allowed at the output of a deep network: rounding of each layer's activations adds up over some
#: dozens of layers. Dynamic int8 rounds weights and activations to 8 bits in every product; saturating kernels go far beyond.
TOLERANCE = {"fp64": 1e-9, "fp32": 1e-3, "tf32": 2e-2, "fp16": 2e-2, "bf16": 8e-2}
INT8_TOLERANCE = 0.10


def cases(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the networks to measure; a quick plan takes batch 1 and narrow types for BERT alone."""
    networks = plan.get("networks")
    if networks:
        return [dict(row) for row in networks]
    narrow = plan.get("quick") and plan.get("dtype", "fp32") != "fp32"
    rows: list[dict[str, Any]] = []
    for batch in (1,) if plan.get("quick") else (1, 8):
        rows.append({"network": BERT_BASE, "batch": batch, "seq": 128, "mode": "infer", "quantization": "none"})
        if plan.get("dtype", "fp32") == "fp32":
            rows.append({"network": BERT_BASE, "batch": batch, "seq": 128, "mode": "infer", "quantization": "int8-dynamic"})
        if not narrow:
            rows.append({"network": RESNET_50, "batch": batch, "resolution": 224, "mode": "infer", "quantization": "none"})
            rows.append({"network": GPT_SMALL, "batch": batch, "seq": 128, "mode": "infer", "quantization": "none"})
            rows.append({"network": GPT_SMALL, "batch": batch, "seq": 128, "mode": "train", "quantization": "none"})
    return sorted(rows, key=work)


def work(params: Mapping[str, Any]) -> float:
    """Return FLOPs of one call."""
    return flops(params["network"], params)


class ModelProblem:
    """Weights, inputs and the float32 reference of the first and the last sample (of all, where samples are normalised together)."""

    work = 1.0

    def __init__(self, case: Case, seed: int) -> None:
        self.case = case
        self.network = complete(case.params["network"])
        self.train = case.params.get("mode") == "train"
        self.weights = make_weights(self.network, WEIGHT_SEED)
        self.inputs = {**make_inputs(self.network, case.params, seed), "network": self.network, "weights": self.weights}
        quantized = case.params.get("quantization", "none") != "none"
        self.tolerance = max(INT8_TOLERANCE if quantized else 0.0, TOLERANCE.get(case.dtype, 8e-2))

    def _reference(self) -> tuple[np.ndarray, np.ndarray]:
        """Return which samples are compared and the reference of each: outputs, or losses for a training step."""
        x = self.inputs.get("images", self.inputs.get("tokens"))
        together = self.train and self.network["kind"] == "resnet"
        rows = np.arange(len(x)) if together else np.unique([0, len(x) - 1])
        wide = np.float64 if self.case.dtype == "fp64" else np.float32
        weights = {name: value.astype(wide, copy=False) for name, value in self.weights.items()}
        x = x[rows].astype(wide) if x.dtype.kind == "f" else x[rows]
        logits = forward(np, self.network, weights, x, numpy_conv, train=self.train)
        return rows, losses(np, logits, self.inputs["targets"][rows]) if self.train else logits

    def check(self, result: Any) -> float:
        """Compare outputs, or for training the losses of the first step; a second step on the same batch must lower them."""
        rows, want = self._reference()
        got, after = result if self.train else (result, None)
        got = np.asarray(got, dtype=np.float64)[rows]
        if got.shape != want.shape:
            raise WrongResult(f"the result has shape {got.shape}, not {want.shape}", float("inf"))
        if not np.isfinite(got).all():
            raise WrongResult("the output is not finite", float("inf"))
        error = float(np.sqrt(np.mean((got - want) ** 2) / np.mean(want.astype(np.float64) ** 2)))
        if not error <= self.tolerance:
            raise WrongResult(f"relative error {error:.2g} at the output, {self.tolerance:.2g} is allowed", error)
        if after is not None and not np.mean(after) < np.mean(result[0]):
            raise WrongResult(f"the loss does not fall: {np.mean(result[0]):.6g}, then {np.mean(after):.6g}", error)
        return error


def problem(case: Case, seed: int) -> ModelProblem:
    """Return weights, inputs and the reference of ``case``."""
    return ModelProblem(case, seed)


BENCHMARK = Benchmark(
    name="model",
    title="whole networks: one inference, one training step",
    metric="seconds",
    unit="s",
    cases=cases,
    work=work,
    problem=problem,
    nominal_rate=50e9,
    # Building the network, compiling it and the float64 reference take seconds.
    shares=6.0,
    variant="execution",
)
