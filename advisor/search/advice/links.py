"""Links: bytes a plan sends, cards without peer-to-peer, weights sharded inside nodes only, and when a device more does not help."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.search.advice._case import Case
from advisor.search.records import Reason
from advisor.units import GIB, format_bytes, format_rate

_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp64": 8.0}


def link_advice(case: Case) -> Iterator[Reason]:
    """Yield what the links between devices mean for the plan."""
    p = case.platform
    if p.devices == 1 or not p.tiers:
        return
    inner = p.tiers[0]
    if not p.profile.peer_to_peer:
        text = (
            f"no peer-to-peer between {p.profile.name}: traffic between devices goes through host memory, so collectives are slow "
            f"and their latency "
            "high (NCCL_P2P_DISABLE=1 is what the driver does anyway)"
        )
        text += (
            "; accumulate gradients so that computation outlasts the all-reduce"
            if case.workload.is_training
            else "; replicas beat splitting a model that fits one device"
        )
        yield Reason(code="NO-P2P", text=text, value=inner.bandwidth_bytes_per_s)
    elif inner.kind.startswith("pcie"):
        text = (
            f"devices are joined by PCIe ({format_rate(inner.bandwidth_bytes_per_s, 'bytes_per_s')} per direction): keep "
            f"traffic between them small"
        )
        yield Reason(code="PCIE", text=text, value=inner.bandwidth_bytes_per_s)
    if case.workload.is_training:
        yield from _sharded_bytes(case)
    else:
        yield from _split(case)


def _sharded_bytes(case: Case) -> Iterator[Reason]:
    plan, p = case.plan, case.platform
    element = _BYTES.get(plan.precision, 2.0)
    local = case.model.parameters / (plan.tp * plan.pp) * element
    if plan.sharding in ("zero3", "fsdp", "hsdp"):
        sent = 3.0 * local
        text = f"{plan.sharding} moves 3 × {format_bytes(local)} a rank and micro-step (gather forward and backward, scatter gradients)"
        inner = p.devices_per_node
        if p.nodes > 1 and plan.sharding != "hsdp":
            # A secondary copy of the weights per node (ZeRO++ hpZ, FSDP hybrid) keeps the backward gather inside the node.
            extra = local / inner
            used = case.memory_bytes or 0.0
            fits = p.memory_bytes is None or used + extra <= p.memory_bytes
            text += (
                f"; a copy of the weights per node (hpZ, zero_hpz_partition_size {inner}) takes {extra / GIB:.1f} GiB more a "
                f"device and leaves "
            )
            text += f"{format_bytes(2 * local)} of it between nodes: it " + ("fits" if fits else "does not fit")
            yield Reason(
                code="SHARDED-BYTES",
                text=text,
                value=sent,
                detail={"hpz_bytes": extra, "hpz_fits": fits, "between_nodes_before": sent, "between_nodes_after": 2 * local},
            )
            return
        yield Reason(code="SHARDED-BYTES", text=text, value=sent)
    elif plan.dp > 1 and plan.adapter == "none":
        text = f"data parallelism reduces {format_bytes(local)} of gradients a rank and step"
        yield Reason(code="GRADIENT-BYTES", text=text, value=local)


def _split(case: Case) -> Iterator[Reason]:
    """Say what splitting a model that fits one device costs, or why it is split."""
    plan, t = case.plan, case.model.transformer
    if t is None or case.model.kind not in ("decoder", "encoder-decoder"):
        return
    if plan.tp > 1:
        small = plan.micro_batch * t.hidden * 2.0
        text = (
            f"tensor parallelism adds 2 all-reduces a layer and token ({2 * t.layers} of {format_bytes(small)}): bound by "
            f"latency, not bandwidth"
        )
        yield Reason(code="TP-LATENCY", text=text, value=float(2 * t.layers))
    elif plan.dp > 1 and plan.pp == 1:
        text = (
            f"the model fits one device, so {plan.dp} replicas need no traffic between devices; split it (tp) only for a "
            f"shorter time to the first token"
        )
        yield Reason(code="REPLICAS", text=text, value=float(plan.dp))
