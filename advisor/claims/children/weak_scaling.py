"""Seconds of a data-parallel training step in JAX over some host devices, one core each, with the same batch a device.

XLA makes as many devices of the host as it is told; the process is held to as many cores, so that one device has one core.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from advisor.claims.children._answer import Lacks, answer
from advisor.claims.children._timing import seconds

LAYERS, WIDTH, BATCH = 4, 512, 128


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the seconds of a step over ``devices`` (``all``: one for each usable core)."""
    threads = int(arguments["threads"])
    count = threads if arguments["devices"] == "all" else int(arguments["devices"])
    cores = sorted(os.sched_getaffinity(0))
    if arguments["devices"] == "all" and count < 2:
        raise Lacks("one core holds one device")
    os.sched_setaffinity(0, cores[:count])
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={count} --xla_cpu_multi_thread_eigen=false"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    mesh = jax.make_mesh((count,), ("data",), axis_types=(AxisType.Auto,))
    key = jax.random.PRNGKey(int(arguments["seed"]))
    weights = jax.device_put(
        [jax.random.normal(jax.random.fold_in(key, i), (WIDTH, WIDTH)) / WIDTH**0.5 for i in range(LAYERS)],
        NamedSharding(mesh, PartitionSpec()),
    )
    x = jax.device_put(jax.random.normal(key, (BATCH * count, WIDTH)), NamedSharding(mesh, PartitionSpec("data")))

    def loss(weights: Any, x: Any) -> Any:
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return jnp.mean(x**2)

    @jax.jit
    def step(weights: Any, x: Any) -> Any:
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights, x))

    taken = seconds(lambda: jax.block_until_ready(step(weights, x)), threads=count, budget_s=float(arguments.get("budget_s") or 3.0))
    return [{"label": "one device a core, the same batch a device", "value": taken, "detail": {"devices": count, "batch": BATCH * count}}]


if __name__ == "__main__":
    answer(measure)
