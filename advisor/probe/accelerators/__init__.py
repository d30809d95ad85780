"""Readers of every accelerator: one module a source."""

from __future__ import annotations

from advisor.probe.accelerators._report import AcceleratorReport
from advisor.probe.root import Root


def find_devices(root: Root) -> AcceleratorReport:
    """Return the accelerators on ``root``, with findings and the reasons for what is not known."""
    return AcceleratorReport()
