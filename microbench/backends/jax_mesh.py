"""JAX over several devices: collectives as XLA makes them, by shard_map over a mesh of one axis.

Where the device is the CPU, XLA is asked for several host devices; they are threads of one process, so what crosses between them is a
copy in memory. A backend of its own, since the number of host devices is fixed when JAX starts and would change its other kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from microbench.benchmarks.collective import MAX_RANKS, rank_inputs
from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case


class MeshSession:
    """All devices of one platform."""

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import jax

        platform = device.partition(":")[0]
        try:
            self.devices = jax.devices(platform)
        except RuntimeError as error:
            raise Unsupported(f"jax cannot use device {device!r}: {str(error).splitlines()[0]}") from error
        self.jax, self.version = jax, jax.__version__

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Compile one collective over the first ``ranks`` devices."""
        import numpy

        params = case.params
        ranks, operation = int(params["ranks"]), params["operation"]
        if case.benchmark != "collective" or case.dtype != "fp32":
            raise Unsupported("the jax-mesh backend measures collectives in fp32")
        if len(self.devices) < ranks:
            raise Unsupported(f"jax sees {len(self.devices)} devices of this kind, {ranks} ranks need as many")
        function = self._functions(ranks).get(operation)
        if function is None:
            raise Unsupported(f"the jax-mesh backend has no {operation}")
        sharding = self.jax.sharding
        mesh = sharding.Mesh(numpy.array(self.devices[:ranks]), ("r",))
        split = sharding.PartitionSpec("r")
        whole = numpy.concatenate([rank_inputs(params, rank, inputs["seed"]) for rank in range(ranks)])
        x = self.jax.device_put(whole, sharding.NamedSharding(mesh, split))
        shared = self.jax.shard_map(function, mesh=mesh, in_specs=split, out_specs=split, check_vma=False)
        compiled = self.jax.jit(shared).lower(x).compile()
        box: list[Any] = [None]

        def run() -> None:
            box[0] = compiled(x)
            box[0].block_until_ready()

        def result() -> Any:
            (shard,) = [part for part in box[0].addressable_shards if part.device == self.devices[0]]
            return numpy.asarray(shard.data)

        return Kernel(run, result, None, {"transport": f"xla:{self.devices[0].platform}"})

    def _functions(self, ranks: int) -> dict[str, Callable[[Any], Any]]:
        lax = self.jax.lax
        ring = [(rank, (rank + 1) % ranks) for rank in range(ranks)]
        return {
            "all_reduce": lambda x: lax.psum(x, "r"),
            "all_gather": lambda x: lax.all_gather(x, "r", tiled=True),
            "reduce_scatter": lambda x: lax.psum_scatter(x, "r", tiled=True),
            "all_to_all": lambda x: lax.all_to_all(x, "r", 0, 0, tiled=True),
            "send_recv": lambda x: lax.ppermute(x, "r", ring),
        }


def environment(threads: int) -> dict[str, str]:
    """Return what holds before jax is imported: host devices for as many ranks as are ever planned, memory not taken in advance."""
    return {"XLA_FLAGS": f"--xla_force_host_platform_device_count={MAX_RANKS}", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


BACKEND = Backend(
    name="jax-mesh",
    module="jax",
    install="pip install jax",
    open=MeshSession,
    env=environment,
    dtypes={"collective": ("fp32",)},
    devices=("cpu", "cuda", "rocm", "tpu"),
)
