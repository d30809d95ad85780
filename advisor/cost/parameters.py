"""The parameters of the training model: what each means, what was believed before fitting, and its bounds.

A name with a dot has one value a generation of devices, a kind of link or a way of fusing; ``any`` stands for those never measured.
"""

from __future__ import annotations

from typing import Final

from advisor.cost.parameter import Parameter


def _p(name: str, prior: float, low: float, high: float, unit: str, meaning: str, source: str, sigma: float = 0.3) -> Parameter:
    return Parameter(
        name=name, meaning=meaning, unit=unit, value=prior, prior=prior, low=low, high=high, prior_log_sigma=sigma, source=source
    )


_SUSTAINED = "Rate of matrix products in a long training step over that of the isolated kernel: clock under the power limit, cold caches"
_TRAFFIC = "Bytes that element-wise work moves over the least possible (each operator reads its inputs and writes its outputs once)"
_BETWEEN = "Time of collectives between nodes in a job over the collective curve: shared links, congestion, protocol"

_FLASH = "Time of fused attention backward in training over 2.5 times the work at 0.8 of the forward rate of the curve"

TIME_PARAMETERS: Final[tuple[Parameter, ...]] = (
    _p("sustained.volta", 0.80, 0.5, 1.2, "ratio", _SUSTAINED, "prior: clocks fall under load", 0.15),
    _p("sustained.ampere", 0.92, 0.6, 1.2, "ratio", _SUSTAINED, "prior: 400 W parts rarely throttle", 0.10),
    _p("sustained.hopper", 0.85, 0.5, 1.2, "ratio", _SUSTAINED, "prior: 700 W parts throttle in GEMM", 0.10),
    _p("sustained.blackwell", 0.85, 0.5, 1.2, "ratio", _SUSTAINED, "prior: as Hopper", 0.10),
    _p("sustained.tpu", 1.15, 0.6, 1.4, "ratio", _SUSTAINED, "prior: XLA reaches 0.9 of the peak in matrix products", 0.10),
    _p("sustained.any", 0.85, 0.5, 1.2, "ratio", _SUSTAINED, "prior: mean of the above", 0.15),
    _p(
        "power_exponent",
        0.4,
        0.05,
        1.0,
        "exponent",
        "How the sustained rate falls with watts for each FLOP/s, below the reference part's",
        "prior: power is clock times voltage squared; the exponent is 1/3 where voltage falls with the clock, more near its floor",
        0.2,
    ),
    _p("sustained.four_bit", 1.1, 0.5, 1.6, "ratio", "The sustained ratio for products in 4 bits, on top", "prior", 0.2),
    _p("sustained.low_precision", 1.1, 0.5, 1.5, "ratio", "The same for products in 8 or 4 bits, on top", "prior: power limit", 0.15),
    _p("unfused_attention", 1.3, 0.6, 4.0, "ratio", "Time of batched products of unfused attention over one product of all", "prior", 0.4),
    _p(
        "misaligned_head",
        6.0,
        1.0,
        20.0,
        "ratio",
        "The same where the head dimension is no multiple of 8 elements",
        "prior: no tensor cores",
        0.6,
    ),
    _p("traffic.eager", 1.8, 1.0, 4.0, "ratio", _TRAFFIC, "prior: one kernel an operation", 0.3),
    _p("traffic.fused", 1.2, 0.7, 3.0, "ratio", _TRAFFIC, "prior: bias, activation, dropout and residual fused", 0.3),
    _p("traffic.compiled", 1.0, 0.5, 2.5, "ratio", _TRAFFIC, "prior: Inductor, XLA", 0.3),
    _p("traffic.xla", 0.7, 0.3, 2.0, "ratio", _TRAFFIC, "prior: XLA fuses element-wise work into products", 0.3),
    _p(
        "host.kernel_s",
        2e-5,
        2e-6,
        6e-5,
        "s",
        "Host time of one kernel of an eager layer: Python, dispatch, launch",
        "prior: forward of an eager Megatron layer takes the host 0.5 to 0.8 ms",
        0.15,
    ),
    _p(
        "host.micro_batch_s",
        1e-3,
        1e-5,
        1e-2,
        "s",
        "Fixed host time and waits of a micro-batch (data, schedule, synchronization)",
        "prior",
        0.8,
    ),
    _p(
        "host.step_s",
        5e-3,
        1e-4,
        8e-2,
        "s",
        "Fixed host time of a step (loss scale, gradient norm, scheduler, logging)",
        "prior: a few synchronizations and copies of scalars",
        0.4,
    ),
    _p(
        "flash.forward",
        1.0,
        0.6,
        2.0,
        "ratio",
        "Time of fused attention in training over the (inference) kernel curve, forward",
        "prior",
        0.15,
    ),
    _p("flash.backward.any", 1.4, 0.6, 2.6, "ratio", _FLASH, "prior", 0.2),
    _p("flash.backward.ampere", 1.4, 0.6, 2.6, "ratio", _FLASH, "prior", 0.2),
    _p("flash.backward.hopper", 1.4, 0.6, 2.6, "ratio", _FLASH, "prior", 0.2),
    _p("flash.backward.blackwell", 1.4, 0.6, 2.6, "ratio", _FLASH, "prior", 0.2),
    _p(
        "host.expert_s",
        2e-3,
        1e-4,
        1.5e-2,
        "s",
        "Host time and waits of routing in one expert layer and pass: counts, permutation, many small products",
        "prior",
        0.5,
    ),
    _p("traffic.logits", 1.0, 0.4, 2.5, "ratio", "Bytes moved by loss and its gradient over the passes counted", "prior", 0.25),
    _p(
        "host.autograd",
        0.9,
        0.2,
        1.5,
        "ratio",
        "Host time of a backward kernel, launched by the autograd engine, over a forward one",
        "prior",
        0.3,
    ),
    _p(
        "misaligned_vocab",
        2.0,
        1.0,
        6.0,
        "ratio",
        "Time of the vocabulary product where the vocabulary is no multiple of 8",
        "prior: no tensor cores for odd strides",
        0.4,
    ),
    _p("host.join", 3.0, 1.3, 20.0, "exponent", "How sharply the slower of host and device decides a micro-batch (p-norm)", "prior", 0.1),
    _p(
        "host.wait_s",
        4e-5,
        5e-6,
        4e-4,
        "s",
        "From the end of device work until a host that waited for it goes on: at stage boundaries, and after every kernel of runs that "
        "launch synchronously",
        "prior: an empty kernel, launched and waited for from Python, takes some tens of microseconds",
        0.8,
    ),
    _p(
        "contention",
        0.2,
        0.01,
        0.7,
        "ratio",
        "Slow-down of work by a collective beside it, of the shorter",
        "prior: 15 % of units (Calculon)",
        0.5,
    ),
    _p(
        "host.skew",
        0.03,
        1e-3,
        0.2,
        "ratio",
        "How much later the slowest host of a tensor-parallel group is, for each doubling of the group",
        "prior: hosts launch at rates a few percent apart",
        0.3,
    ),
    _p("network.inside", 1.2, 0.8, 2.5, "ratio", "Time of collectives inside a node in a job over the collective curve", "prior", 0.2),
    _p("network.between.ib", 1.3, 0.6, 3.0, "ratio", _BETWEEN, "prior", 0.3),
    _p("network.between.roce", 1.3, 0.8, 3.0, "ratio", _BETWEEN, "prior", 0.3),
    _p("network.between.efa", 1.8, 0.8, 5.0, "ratio", _BETWEEN, "prior: many-path protocol in software", 0.3),
    _p("network.between.opa", 3.0, 0.8, 12.0, "ratio", _BETWEEN, "prior: host-driven protocol without GPU collectives", 0.4),
    _p("network.between.torus", 1.2, 0.6, 3.0, "ratio", _BETWEEN, "prior", 0.3),
    _p("network.between.any", 1.3, 0.8, 4.0, "ratio", _BETWEEN, "prior", 0.3),
    _p(
        "tensor_backward_overlap",
        0.4,
        0.0001,
        1.0,
        "fraction",
        "Of backward tensor-parallel traffic, what hides behind weight gradients",
        "prior",
        0.5,
    ),
    _p(
        "pipeline_wait",
        1.0,
        0.2,
        5.0,
        "ratio",
        "Exposed time of a stage boundary over its transfer time: waits for neighbours",
        "prior",
        0.5,
    ),
    _p("straggler", 0.004, 1e-5, 0.03, "per doubling", "Step time lost to the slowest node, for each doubling of nodes", "prior", 0.8),
    _p("optimizer_traffic", 1.0, 0.5, 4.0, "ratio", "Bytes the optimizer step moves over the least possible", "prior", 0.3),
    _p(
        "expert_imbalance",
        1.3,
        1.0,
        3.0,
        "ratio",
        "Time of the busiest rank's expert products over one even product: imbalance and many small groups",
        "prior",
        0.2,
    ),
)

MEMORY_PARAMETERS: Final[tuple[Parameter, ...]] = (
    _p(
        "memory.context_bytes",
        1.2e9,
        3e8,
        4e9,
        "bytes",
        "CUDA or HIP context and libraries, outside the allocator",
        "prior: 0.5-1.5 GB",
        0.4,
    ),
    _p("memory.channel_bytes", 1e8, 1e7, 6e8, "bytes", "Communicator buffers of one collective group, outside the allocator", "prior", 0.6),
    _p(
        "memory.reserved",
        0.04,
        0.001,
        0.25,
        "fraction",
        "What the caching allocator holds beyond the peak of what is allocated",
        "prior",
        0.5,
    ),
    _p(
        "memory.buffers",
        0.28,
        0.01,
        1.0,
        "bytes",
        "Gradient and parameter buckets and their padding, for each parameter on the device",
        "prior",
        0.5,
    ),
    _p("memory.workspace_bytes", 1.3e8, 1e7, 1e9, "bytes", "Library workspaces inside the allocator", "prior", 0.6),
    _p(
        "memory.transient",
        1.0,
        0.1,
        4.0,
        "ratio",
        "Gradients and temporaries of the layer in backward, of what one layer keeps",
        "prior",
        0.5,
    ),
)

PARAMETERS: Final = TIME_PARAMETERS + MEMORY_PARAMETERS

#: Standard deviation of log(measured / predicted) by task and evidence, before any left-out scoring.
SIGMA_PRIOR: Final[dict[str, float]] = {
    "training.measured": 0.05,
    "training.calibrated": 0.10,
    "training.transferred": 0.20,
    "training.spec": 0.30,
    "training.experts": 1.5,
    "memory": 0.08,
}
