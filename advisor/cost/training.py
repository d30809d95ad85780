"""Time of a training step: the terms of a plan and the calibrated parameters, composed into exposed seconds by cause.

For the heaviest stage and one micro-batch: matrix products, attention and element-wise work forward and backward, the recomputed
forward, tensor-, context- and expert-parallel exchanges, and what the host adds where it cannot launch fast enough. Over the step:
the pipeline's bubble, gradient reduction, gathering of parameters, the optimizer.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.communication import beside
from advisor.cost.terms import FUSIONS, GENERATIONS, LINKS, Terms

Floats = npt.NDArray[np.float64]

#: Exponent with which host and device time join: at equal times the step is 12 % longer than either.
_JOIN = 6.0
#: Host seconds per parameter of an optimizer step on the host (DeepSpeed CPU-Adam: about 1 billion parameters a second a socket).
_CPU_ADAM_S = 1e-9


def pick(calibration: Calibration, prefix: str, names: tuple[str, ...], codes: npt.NDArray[np.int64]) -> Floats:
    """Return float64[n]: parameter ``prefix.<name>`` of each row, or ``prefix.any`` for a name without its own."""
    known = calibration.parameters
    values = [known[f"{prefix}.{name}" if f"{prefix}.{name}" in known else f"{prefix}.any"].value for name in names]
    return np.array(values)[codes]


def compose(t: Terms, k: Calibration) -> dict[str, Floats]:
    """Return the exposed seconds of a step by cause, float64[n] each; they add up to the step time."""
    kernels = _kernel_times(t, k)
    comm = _Network(t, k)
    stage = _micro_batch(t, k, kernels, comm)
    parts = _schedule(t, k, stage, comm)
    _once_a_step(t, k, parts, stage, comm)
    total = sum(parts.values(), start=np.zeros(len(t)))
    parts["straggler"] = total * k["straggler"] * np.log2(t.nodes)
    return parts


class _Network:
    """Seconds of an exchange in a job: the curve's seconds times the calibrated slow-down of its tiers."""

    def __init__(self, t: Terms, k: Calibration) -> None:
        self._t = t
        self._inside = k["network.inside"]
        self._between = pick(k, "network.between", LINKS, t.codes["link"])

    def __call__(self, name: str) -> Floats:
        return self._t.columns[f"{name}_inside"] * self._inside + self._t.columns[f"{name}_between"] * self._between


def _kernel_times(t: Terms, k: Calibration) -> dict[str, Floats]:
    """Seconds of all layers and of the edges, one micro-batch, by kind of kernel."""
    rate = pick(k, "sustained", GENERATIONS, t.codes["generation"])
    low = np.where(t.low_precision > 0, k["sustained.low_precision"], 1.0)
    traffic = pick(k, "traffic", FUSIONS, t.codes["fusion"])
    products = rate * low
    unfused, misaligned = k["unfused_attention"] / rate, k["misaligned_head"] * k["unfused_attention"] / rate
    # A buffer of accumulated gradients is read and written for every micro-batch.
    accumulate = np.where(t.adapter > 0, 0.0, t.layer_params * t.layers * 2.0 * t.gradient_bytes / t.bandwidth)
    return {
        "gemm_forward": t.gemm_forward / products,
        "gemm_backward": (t.gemm_input + t.gemm_weight) / products,
        "weight_gradient": t.gemm_weight / products,
        "attention_forward": t.flash_forward / rate
        + t.batched_forward * unfused
        + t.misaligned_forward * misaligned
        + t.score_bytes_forward / t.bandwidth,
        "attention_backward": t.flash_backward / rate
        + t.batched_backward * unfused
        + t.misaligned_backward * misaligned
        + t.score_bytes_backward / t.bandwidth,
        "elementwise_forward": (t.traffic_forward * traffic + t.cast_forward) / t.bandwidth,
        "elementwise_backward": (t.traffic_backward * traffic + t.cast_backward) / t.bandwidth + accumulate,
        "edges": (t.head_gemm_forward + t.head_gemm_backward) / rate
        + (t.edge_bytes * traffic + t.logits * t.logit_passes_bytes) / t.bandwidth,
    }


def _micro_batch(t: Terms, k: Calibration, kernel: dict[str, Floats], comm: _Network) -> dict[str, Floats]:
    """Seconds of all layers for one micro-batch by cause; ``edges`` apart, and ``forward``/``backward`` work for later overlap."""
    forward = kernel["gemm_forward"] + kernel["attention_forward"] + kernel["elementwise_forward"]
    backward = kernel["gemm_backward"] + kernel["attention_backward"] + kernel["elementwise_backward"]
    # Selective: the attention core again where it keeps scores, element-wise work again where it does not.
    core = np.where(t.unfused > 0, kernel["attention_forward"], kernel["elementwise_forward"])
    again = t.recompute_full * forward + t.recompute_selective * core
    imbalance = np.where(t.ep > 1, k["expert_imbalance"], 1.0)
    tensor = comm("tensor")
    hidden_back = np.where(t.sequence_parallel > 0, t.overlap_tensor, np.maximum(t.overlap_tensor, k["tensor_backward_overlap"] * 0.5))
    gamma = k["contention"]
    tensor_s = (
        beside(kernel["gemm_forward"], tensor, t.overlap_tensor, gamma) * (1.0 + t.recompute_full)
        + beside(kernel["weight_gradient"], tensor, hidden_back, gamma)
        + beside(kernel["weight_gradient"], comm("tensor_extra"), 1.0, gamma)
    )
    context = comm("context")
    context_s = beside(kernel["attention_forward"], context, 1.0, gamma) * (1.0 + t.recompute_full) + beside(
        kernel["attention_backward"], 2.0 * context, 1.0, gamma
    )
    gather, scatter = comm("gather"), comm("scatter")
    again_forward = backward + again
    gather_s = beside(forward, gather, t.overlap_parameters * 1.0, gamma)
    back_traffic = gather + scatter * t.reduces_each_micro_batch
    gather_s = np.where(t.sharded_weights > 0, gather_s + beside(again_forward, back_traffic, t.overlap_parameters * 1.0, gamma), 0.0)
    offload = 3.0 * t.offload_params * t.layer_params * t.layers * t.weight_bytes / t.host_link
    return {
        "gemm": (kernel["gemm_forward"] + kernel["gemm_backward"]) * 1.0,
        "attention": kernel["attention_forward"] + kernel["attention_backward"],
        "elementwise": kernel["elementwise_forward"] + kernel["elementwise_backward"],
        "recompute": again,
        "tensor_parallel": tensor_s,
        "context_parallel": np.where(t.cp > 1, context_s, 0.0),
        "expert_parallel": comm("expert") * (2.0 + t.recompute_full)
        + (imbalance - 1.0) * (kernel["gemm_forward"] + kernel["gemm_backward"]),
        "parameter_gather": gather_s,
        "offload": offload,
        "edges": kernel["edges"],
        "backward_work": backward + again,
        "forward_work": forward,
    }


_STAGE_PARTS = (
    "gemm",
    "attention",
    "elementwise",
    "recompute",
    "tensor_parallel",
    "context_parallel",
    "expert_parallel",
    "parameter_gather",
    "offload",
)


def _schedule(t: Terms, k: Calibration, stage: dict[str, Floats], comm: _Network) -> dict[str, Floats]:
    """Multiply the heaviest stage by the micro-batches, and add the host's share, the bubble and the stage boundaries."""
    m = t.grad_accumulation
    per_layer = sum((stage[name] for name in _STAGE_PARTS), start=np.zeros(len(t))) / t.layers
    first, last = t.layers_most * per_layer, t.layers_last * per_layer + stage["edges"]
    ends_here = (t.pp == 1) | (last >= first)
    mine = np.where(t.pp == 1, t.layers, np.where(ends_here, t.layers_last, t.layers_most))
    device_s = mine * per_layer + np.where(ends_here, stage["edges"], 0.0)
    # Launches run in both passes; tensor-parallel exchanges are launches too, and each waits for its group.
    launches = t.kernels_forward * (1.0 + t.recompute_full) + t.kernels_backward + np.where(t.tp > 1, 4.0 + 2.0 * t.recompute_full, 0.0)
    host_s = (launches * mine + np.where(ends_here, 60.0, 5.0)) * k["host.kernel_s"] * t.host_factor + k["host.micro_batch_s"]
    joined = (device_s**_JOIN + host_s**_JOIN) ** (1.0 / _JOIN)
    launch = joined - device_s
    parts = {name: m * stage[name] / t.layers * mine for name in _STAGE_PARTS}
    parts["embedding_and_head"] = m * np.where(ends_here, stage["edges"], 0.0)
    parts["launch"] = m * launch
    whole = (t.layers * (joined - np.where(ends_here, stage["edges"], 0.0)) / mine) + stage["edges"]
    parts["pipeline_bubble"] = np.where(t.pp > 1, np.maximum(whole - joined, 0.0) / t.vpp, 0.0)
    boundary = comm("stage") * k["pipeline_wait"] * (1.0 - t.overlap_pipeline)
    crossings = 2.0 * t.vpp * m + 2.0 * (t.pp - 1.0)
    parts["pipeline_transfer"] = np.where(t.pp > 1, boundary * crossings, 0.0)
    stage["last_backward"] = stage["backward_work"] / t.layers * mine
    stage["first_forward"] = stage["forward_work"] / t.layers * mine
    return parts


def _once_a_step(t: Terms, k: Calibration, parts: dict[str, Floats], stage: dict[str, Floats], comm: _Network) -> None:
    """Add gradient reduction, gathered updates, optimizer and fixed costs to ``parts``."""
    gamma = k["contention"]
    gradient = beside(stage["last_backward"], comm("gradient"), t.overlap_gradients, gamma)
    update = beside(stage["first_forward"], comm("update"), t.overlap_parameters, gamma)
    late = np.where(t.reduces_each_micro_batch > 0, 0.0, comm("scatter")) + comm("replica")
    sharded = np.where(t.sharded_weights > 0, beside(stage["last_backward"], late, t.overlap_gradients, gamma), 0.0)
    parts["data_parallel"] = gradient + update + sharded
    shard = np.where(t.sharded_states > 0, np.maximum(t.shard_degree, 1.0), 1.0)
    mine = t.trained_params / shard
    moved = mine * t.optimizer_bytes * k["optimizer_traffic"] + mine * t.step_traffic_bytes
    on_host = mine * (t.gradient_bytes + t.weight_bytes) / t.host_link + mine * _CPU_ADAM_S
    parts["optimizer"] = np.where(t.offload_optimizer > 0, on_host, moved / t.bandwidth)
    parts["fixed"] = np.full(len(t), k["host.step_s"])
