"""A described network in JAX: the shared forward pass under jit, and one training step."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from microbench.networks.forward import forward, losses
from microbench.plugin import Kernel, Unsupported
from microbench.protocol import Case

TYPES = {"fp64": jnp.float64, "fp32": jnp.float32, "bf16": jnp.bfloat16, "fp16": jnp.float16}
LEARNING_RATE = 1e-4


def conv(x: Any, w: Any, stride: int, padding: int) -> Any:
    """Return a convolution in NCHW."""
    return jax.lax.conv_general_dilated(x, w, (stride, stride), [(padding, padding)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW"))


def build(session: Any, case: Case, inputs: Mapping[str, Any]) -> Kernel:
    """Make the network ready: compiled ahead for its inputs, weights passed as arguments."""
    if case.params.get("execution", "jit") != "jit":
        raise Unsupported("jax networks run under jit")
    if case.params.get("quantization", "none") != "none":
        raise Unsupported("jax has no dynamic int8 networks of its own")
    if case.dtype not in TYPES:
        raise Unsupported(f"jax has no {case.dtype} networks here")
    start = time.perf_counter()
    net, kind = inputs["network"], TYPES[case.dtype]
    images = net["kind"] == "resnet"
    x = jax.device_put(jnp.asarray(inputs["images" if images else "tokens"]), session.device)
    if case.params.get("mode") == "train":
        return _train(session, net, inputs, x, kind, start)
    weights = {name: jax.device_put(jnp.asarray(value, dtype=kind), session.device) for name, value in inputs["weights"].items()}
    x = x.astype(kind) if images else x
    kernel = session.kernel(lambda w, y: forward(jnp, net, w, y, conv), weights, x)
    return Kernel(kernel.run, kernel.result, None, {"prepare_s": time.perf_counter() - start})


def _train(session: Any, net: Mapping[str, Any], inputs: Mapping[str, Any], x: Any, kind: Any, start: float) -> Kernel:
    """AdamW with PyTorch's defaults on float32 weights, products in ``kind``; state is donated from step to step."""
    weights = {name: jax.device_put(jnp.asarray(value, dtype=jnp.float32), session.device) for name, value in inputs["weights"].items()}
    targets = jnp.asarray(inputs["targets"])

    def loss(w: Any, y: Any, t: Any) -> Any:
        narrow = {name: value.astype(kind) for name, value in w.items()}
        samples = losses(jnp, forward(jnp, net, narrow, y.astype(kind) if y.dtype.kind == "f" else y, conv, train=True), t)
        return samples.mean(), samples

    def step(state: Any, y: Any, t: Any) -> Any:
        w, first, second, count = state
        (_, samples), gradient = jax.value_and_grad(loss, has_aux=True)(w, y, t)
        count = count + 1
        first = {n: 0.9 * first[n] + 0.1 * g for n, g in gradient.items()}
        second = {n: 0.999 * second[n] + 0.001 * g * g for n, g in gradient.items()}
        one, two = 1 - 0.9**count, 1 - 0.999**count
        w = {
            n: v * (1 - LEARNING_RATE * 0.01) - LEARNING_RATE * (first[n] / one) / (jnp.sqrt(second[n] / two) + 1e-8) for n, v in w.items()
        }
        return (w, first, second, count), samples

    zeros = {name: jnp.zeros_like(value) for name, value in weights.items()}
    state = (weights, zeros, {name: jnp.zeros_like(value) for name, value in weights.items()}, jnp.float32(0))
    compiled = jax.jit(step, donate_argnums=0).lower(state, x, targets).compile()
    box: list[Any] = [state, None]

    def run() -> None:
        box[0], box[1] = compiled(box[0], x, targets)
        jax.block_until_ready(box)

    def result() -> tuple[Any, Any]:
        before = np.asarray(box[1], dtype=np.float64)
        run()
        return before, np.asarray(box[1], dtype=np.float64)

    return Kernel(run, result, None, {"prepare_s": time.perf_counter() - start})
