"""Readers of every accelerator: one module a source. ``find_devices`` asks those that this machine gives a reason to ask."""

from __future__ import annotations

from importlib import import_module

from advisor.probe.accelerators._report import AcceleratorReport
from advisor.probe.records import Finding
from advisor.probe.root import Root

# Modules with ``read(root, pci) -> Reading``. A family is added by adding its module here.
READERS = ("nvidia", "amd", "tpu", "intel_gpu", "npu", "ascend", "gaudi", "neuron", "tenstorrent", "other", "apple")


def find_devices(root: Root) -> AcceleratorReport:
    """Return the accelerators on ``root``, with findings and the reasons for what is not known.

    On a live root libraries are asked in children with a deadline; on a recorded one nothing is called. Never raises for
    what a machine holds: a reader that fails is a finding, and the others still answer.
    """
    from advisor.probe.accelerators import lspci, pci
    from advisor.probe.accelerators._sighting import Reading
    from advisor.probe.accelerators._tools import recorded
    from advisor.probe.accelerators.merge import build
    from advisor.probe.accelerators.visible import mark_visible

    devices = pci.scan(root)
    text = recorded(root, "lspci-nn.txt")
    if text is not None:
        seen = {device.bus_id for device in devices}
        devices += tuple(device for device in lspci.parse_lspci(text) if device.bus_id not in seen)
    reading = Reading()
    for name in READERS:
        try:
            reading.add(import_module(f"advisor.probe.accelerators.{name}").read(root, devices))
        except Exception as error:  # noqa: BLE001 - a defect in one reader must not hide the devices of the others; it is reported
            reading.findings.append(
                Finding(
                    code="READER_FAILED",
                    severity="warning",
                    message=f"the reader {name} failed, its devices may be missing: {type(error).__name__}: {error}"[:300],
                    fix="attach `advisor probe --record DIR` to a bug report",
                )
            )
    built = build(reading.sightings)
    return AcceleratorReport(
        devices=mark_visible(built.devices, root.environ), findings=(*reading.findings, *built.findings), unknown=built.unknown
    )
