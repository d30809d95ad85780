"""Advice beside the choice of a plan: what practitioners ask next, each a Reason with its number, from one small file a topic."""

from __future__ import annotations

from advisor.search.advice._case import Case
from advisor.search.advice.devices import device_advice
from advisor.search.advice.experts import expert_advice, mesh_advice
from advisor.search.advice.host import host_advice
from advisor.search.advice.links import link_advice
from advisor.search.advice.memory import memory_advice
from advisor.search.advice.numbers import number_advice
from advisor.search.advice.running import running_advice
from advisor.search.advice.serving import serving_advice
from advisor.search.records import Reason

__all__ = ["Case", "advice"]


def advice(case: Case) -> tuple[Reason, ...]:
    """Return everything that applies, in the order a reader asks: memory, numbers, links, running it, serving, the host, the names."""
    return (
        *memory_advice(case),
        *number_advice(case),
        *link_advice(case),
        *expert_advice(case),
        *mesh_advice(case),
        *running_advice(case),
        *serving_advice(case),
        *host_advice(case),
        *device_advice(case),
    )
