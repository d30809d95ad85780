"""Time of a training step: the terms of a plan and the calibrated parameters, composed into exposed seconds by cause.

For the heaviest stage and one micro-batch: matrix products, attention and element-wise work forward and backward, the recomputed
forward, tensor-, context- and expert-parallel exchanges, and what the host adds where it cannot launch fast enough. Over the step:
the pipeline's bubble, gradient reduction, gathering of parameters, the optimizer.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.cost import offload
from advisor.cost.calibration import Calibration
from advisor.cost.communication import beside
from advisor.cost.terms import FUSIONS, GENERATIONS, LINKS, Terms

Floats = npt.NDArray[np.float64]

#: Times that a host waits for its device in one crossing of a pipeline stage's boundary: two requests of a batched send and receive in
#: each direction are waited for (Megatron-LM, p2p_communication.py).
_WAITS_AT_BOUNDARY = 4.0


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
    rate = pick(k, "sustained", GENERATIONS, t.codes["generation"]) * t.power ** k["power_exponent"]
    low = np.where(t.low_precision > 0, k["sustained.low_precision"], 1.0) * np.where(t.four_bit > 0, k["sustained.four_bit"], 1.0)
    traffic = pick(k, "traffic", FUSIONS, t.codes["fusion"])
    products = rate * low
    flash_backward = pick(k, "flash.backward", GENERATIONS, t.codes["generation"])
    unfused, misaligned = k["unfused_attention"] / rate, k["misaligned_head"] * k["unfused_attention"] / rate
    # Unbalanced context parallelism: the last rank's rows of the causal triangle hold (2 - 1/cp) times the mean.
    uneven = np.where(t.balanced_context > 0, 1.0, 2.0 - 1.0 / t.cp)
    head = np.where(t.odd_vocab > 0, k["misaligned_vocab"], 1.0)
    passes = (t.edge_bytes * traffic + t.logits * t.logit_passes_bytes * k["traffic.logits"]) / t.bandwidth
    # Accumulated gradients are read and written for every micro-batch, and the new one read once more where that is a pass of its own.
    touched = 2.0 * t.gradient_bytes + np.where(t.fused_accumulation > 0, 0.0, t.weight_bytes)
    accumulate = np.where(t.adapter > 0, 0.0, t.layer_params * t.layers * touched / t.bandwidth)
    return {
        "gemm_forward": t.gemm_forward / products,
        "gemm_backward": (t.gemm_input + t.gemm_weight) / products,
        "weight_gradient": t.gemm_weight / products,
        "expert_forward": t.expert_forward / products,
        "expert_backward": t.expert_backward / products,
        "attention_forward": t.flash_forward * k["flash.forward"] * uneven / rate
        + t.batched_forward * unfused
        + t.misaligned_forward * misaligned
        + t.score_bytes_forward / t.bandwidth,
        "attention_backward": t.flash_backward * flash_backward * uneven / rate
        + t.batched_backward * unfused
        + t.misaligned_backward * misaligned
        + t.score_bytes_backward / t.bandwidth,
        "elementwise_forward": (t.traffic_forward * traffic + t.cast_forward * t.cast_passes) / t.bandwidth,
        "elementwise_backward": (t.traffic_backward * traffic + t.cast_backward * t.cast_passes) / t.bandwidth + accumulate,
        "edges_forward": t.head_gemm_forward * head / rate + passes * 0.4,
        "edges_backward": t.head_gemm_backward * head / rate + passes * 0.6,
    }


def _micro_batch(t: Terms, k: Calibration, kernel: dict[str, Floats], comm: _Network) -> dict[str, Floats]:
    """Seconds of all layers for one micro-batch by cause; ``edges`` apart, and ``forward``/``backward`` work for later overlap."""
    forward = kernel["gemm_forward"] + kernel["attention_forward"] + kernel["elementwise_forward"]
    backward = kernel["gemm_backward"] + kernel["attention_backward"] + kernel["elementwise_backward"]
    # Selective: the attention core again where it keeps scores, element-wise work again where it does not.
    core = np.where((t.unfused > 0) | (t.selective_kept >= 1.0), kernel["attention_forward"], kernel["elementwise_forward"])
    again = t.recompute_full * forward + t.recompute_selective * (core + t.selective_products * kernel["gemm_forward"])
    tensor_f, tensor_b = _tensor(t, k, kernel, comm)
    context_f, context_b = _context(t, k, kernel, comm)
    offload_f, offload_b = offload.exposed(t, forward, backward + again)
    # While a pass waits for the host link, the network may work: both hide behind the same seconds.
    forward_work, backward_work = forward + offload_f, backward + again + offload_b
    gather_f, gather_b = _gathers(t, k, forward_work, backward_work, comm)
    imbalance = np.where(t.ep > 1, k["expert_imbalance"] - 1.0, 0.0)
    routed = comm("expert") * (1.0 - t.overlap_expert)
    expert_f = routed + imbalance * kernel["expert_forward"]
    expert_b = routed * (1.0 + t.recompute_full) + imbalance * kernel["expert_backward"]
    return {
        "gemm": kernel["gemm_forward"] + kernel["gemm_backward"],
        "attention": kernel["attention_forward"] + kernel["attention_backward"],
        "elementwise": kernel["elementwise_forward"] + kernel["elementwise_backward"],
        "recompute": again,
        "tensor_parallel": tensor_f + tensor_b,
        "context_parallel": context_f + context_b,
        "expert_parallel": expert_f + expert_b,
        "parameter_gather": gather_f + gather_b,
        "offload": offload_f + offload_b,
        "edges": kernel["edges_forward"] + kernel["edges_backward"],
        "edges_forward": kernel["edges_forward"],
        "edges_backward": kernel["edges_backward"],
        "forward_work": forward_work,
        "backward_work": backward_work,
        "forward_pass": forward_work + tensor_f + context_f + expert_f + gather_f,
        "backward_pass": backward_work + tensor_b + context_b + expert_b + gather_b,
    }


def _tensor(t: Terms, k: Calibration, kernel: dict[str, Floats], comm: _Network) -> tuple[Floats, Floats]:
    """Exposed tensor-parallel seconds, forward and backward. Backward, the exchange of an input's gradient can run beside the weight's."""
    gamma, tensor = k["contention"], comm("tensor")
    forward = beside(kernel["gemm_forward"], tensor, t.overlap_tensor, gamma)
    # Without sequence parallelism one of the two backward exchanges of a block half is asynchronous (Megatron-LM, column products).
    hidden = np.where(t.sequence_parallel > 0, t.overlap_tensor, np.maximum(t.overlap_tensor, 0.5 * k["tensor_backward_overlap"]))
    hidden = np.where(t.synchronous > 0, 0.0, hidden)
    backward = beside(kernel["weight_gradient"], tensor, hidden, gamma) + beside(
        kernel["weight_gradient"], comm("tensor_extra"), 1.0, gamma
    )
    return forward, backward + t.recompute_full * forward


def _context(t: Terms, k: Calibration, kernel: dict[str, Floats], comm: _Network) -> tuple[Floats, Floats]:
    """Exposed seconds of passing keys and values round the context-parallel ring, beside attention; gradients double them backward."""
    gamma, ring, used = k["contention"], comm("context"), t.cp > 1
    forward = np.where(used, beside(kernel["attention_forward"], ring, t.overlap_context, gamma), 0.0)
    backward = np.where(used, beside(kernel["attention_backward"], 2.0 * ring, t.overlap_context, gamma), 0.0)
    return forward, backward + t.recompute_full * forward


def _gathers(t: Terms, k: Calibration, forward: Floats, backward: Floats, comm: _Network) -> tuple[Floats, Floats]:
    """Exposed seconds of gathering sharded weights for each pass, and of reducing gradients where that follows every micro-batch."""
    gamma, gather = k["contention"], comm("gather")
    reduce_ = comm("scatter") * t.reduces_each_micro_batch
    used = (t.sharded_weights > 0) & ((t.gathers_once == 0) | (t.pp == 1))
    first = np.where(used, beside(forward, gather, t.overlap_parameters, gamma), 0.0)
    second = np.where(used, beside(backward, gather + reduce_, t.overlap_parameters, gamma), 0.0)
    return first, second


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


def _with_host(t: Terms, k: Calibration, stage: dict[str, Floats], mine: Floats, edges: Floats) -> Floats:
    """Seconds of one micro-batch on the heaviest stage with the host that launches its kernels.

    Each pass takes as long as the slower of the two: the queue between them is only as deep as a pass. Backward kernels are
    launched by the autograd engine, at ``host.autograd`` of the cost; a recomputed forward costs the host what the first one did.
    """
    each = k["host.kernel_s"] * t.host_factor
    wait = t.synchronous * k["host.wait_s"]
    # Tensor-parallel exchanges are launches too, two in each pass of a layer.
    forward_launches = t.kernels_forward + t.softmax_launches + np.where(t.tp > 1, 2.0, 0.0)
    # Twelve parameters of a layer are accumulated one by one where the product does not do it.
    backward_launches = t.kernels_backward + 12.0 * (1.0 - t.fused_accumulation) + t.softmax_launches + np.where(t.tp > 1, 2.0, 0.0)
    fixed = 0.5 * k["host.micro_batch_s"]
    again = forward_launches * t.recompute_full
    host_f = (forward_launches * mine + 30.0 * edges) * (each + wait) + fixed
    host_b = (again * (each + wait) + backward_launches * (k["host.autograd"] * each + wait)) * mine + 15.0 * edges * (each + wait) + fixed
    routing = t.expert_layers / t.layers * mine * k["host.expert_s"] * t.host_factor
    host_f, host_b = host_f + routing, host_b + routing * (1.0 + t.recompute_full)
    # Tensor-parallel ranks meet in every exchange, so that the slowest of their hosts decides.
    slowest = 1.0 + k["host.skew"] * np.log2(t.tp)
    host_f, host_b = host_f * slowest, host_b * slowest
    device_f = stage["forward_pass"] / t.layers * mine + edges * stage["edges_forward"]
    device_b = stage["backward_pass"] / t.layers * mine + edges * stage["edges_backward"]
    # Synchronous launches leave nothing to run ahead: host and device take turns.
    join = np.where(t.synchronous > 0, 1.0, k["host.join"])
    return (device_f**join + host_f**join) ** (1.0 / join) + (device_b**join + host_b**join) ** (1.0 / join)


def _schedule(t: Terms, k: Calibration, stage: dict[str, Floats], comm: _Network) -> dict[str, Floats]:
    """Multiply the heaviest stage by the micro-batches, and add the host's share, the bubble and the stage boundaries."""
    m = t.grad_accumulation
    per_layer = sum((stage[name] for name in _STAGE_PARTS), start=np.zeros(len(t))) / t.layers
    first, last = t.layers_most * per_layer, t.layers_last * per_layer + stage["edges"]
    ends_here = (t.pp == 1) | (last >= first)
    mine = np.where(t.pp == 1, t.layers, np.where(ends_here, t.layers_last, t.layers_most))
    mine_edges = np.where(ends_here, 1.0, 0.0)
    shared = (t.balanced_by_cost > 0) & (t.pp > 1)
    mine, mine_edges = np.where(shared, t.layers / t.pp, mine), np.where(shared, 1.0 / t.pp, mine_edges)
    device_s = mine * per_layer + mine_edges * stage["edges"]
    joined = _with_host(t, k, stage, mine, mine_edges)
    launch = joined - device_s
    parts = {name: m * stage[name] / t.layers * mine for name in _STAGE_PARTS}
    parts["embedding_and_head"] = m * mine_edges * stage["edges"]
    parts["launch"] = m * launch
    whole = (t.layers * (joined - mine_edges * stage["edges"]) / mine) + stage["edges"]
    parts["pipeline_bubble"] = np.where(t.pp > 1, np.maximum(whole - joined, 0.0) / t.vpp, 0.0)
    boundary = comm("stage") * k["pipeline_wait"] * (1.0 - t.overlap_pipeline)
    crossings = 2.0 * t.vpp * m + 2.0 * (t.pp - 1.0)
    waits = 2.0 * t.vpp * m * _WAITS_AT_BOUNDARY * k["host.wait_s"] * t.host_factor * (1.0 - t.overlap_pipeline)
    parts["pipeline_transfer"] = np.where(t.pp > 1, boundary * crossings + waits, 0.0)
    stage["last_backward"] = stage["backward_work"] / t.layers * mine
    stage["first_forward"] = stage["forward_work"] / t.layers * mine
    return parts


def _once_a_step(t: Terms, k: Calibration, parts: dict[str, Floats], stage: dict[str, Floats], comm: _Network) -> None:
    """Add gradient reduction, gathered updates, optimizer and fixed costs to ``parts``."""
    gamma = k["contention"]
    # Gradients that are sharded while weights are not (ZeRO-2) are reduced after every micro-batch.
    times = np.where((t.sharded_gradients > 0) & (t.sharded_weights == 0), t.grad_accumulation, 1.0)
    gradient = times * beside(stage["last_backward"], comm("gradient"), t.overlap_gradients, gamma)
    update = beside(stage["first_forward"], comm("update"), t.overlap_parameters * (1.0 - t.waits_for_update), gamma)
    once = (t.gathers_once > 0) & (t.pp > 1)
    late = np.where((t.reduces_each_micro_batch > 0) & ~once, 0.0, comm("scatter")) + comm("replica") + np.where(once, comm("gather"), 0.0)
    sharded = np.where(t.sharded_weights > 0, beside(stage["last_backward"], late, t.overlap_gradients, gamma), 0.0)
    parts["data_parallel"] = gradient + update + sharded
    shard = np.where(t.sharded_states > 0, np.maximum(t.shard_degree, 1.0), 1.0)
    mine = t.trained_params / shard
    # Two moments of 8 bits are read and written in 4 bytes, not in 16.
    each = t.optimizer_bytes - 12.0 * t.optimizer_8bit
    moved = mine * each * k["optimizer_traffic"] + mine * t.step_traffic_bytes
    parts["optimizer"] = np.where(t.offload_optimizer > 0, offload.step_seconds(t), moved / t.bandwidth)
    parts["fixed"] = np.full(len(t), k["host.step_s"])
