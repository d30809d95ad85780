"""The host: operating system, processors, memory, and what this process may use of them."""

from __future__ import annotations

from advisor.probe.host._read import read_host
from advisor.probe.host._report import HostFacts, HostReport

__all__ = ["HostFacts", "HostReport", "read_host"]
