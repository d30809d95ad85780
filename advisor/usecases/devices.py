"""Which device to measure on, and what frameworks call it."""

from __future__ import annotations

from typing import Any

from advisor.errors import EnvironmentLacks

#: What frameworks call a target's devices.
FRAMEWORK_DEVICE = {"cuda": "cuda", "rocm": "cuda", "xpu": "xpu", "mps": "mps", "tpu": "tpu"}


def device_to_measure(machine: Any, name: str | None = None) -> tuple[str, str]:
    """Return the probe's id of a device and what frameworks call it (``cuda:1``).

    Without a ``name`` it is the first usable accelerator, else the CPU. UnknownName, or EnvironmentLacks where the device named is not
    usable or no backend measures its target.
    """
    usable = [d for d in machine.devices if d.state == "usable"]
    if name is None:
        accelerators = [d for d in usable if d.target in FRAMEWORK_DEVICE]
        cpus = [d for d in machine.devices if d.target.startswith("cpu")]
        chosen = (accelerators or cpus)[0] if accelerators or cpus else None
        if chosen is None:
            return "cpu0", "cpu"
    else:
        from advisor.usecases.probe import explain

        chosen = explain(machine, name)
        if chosen.state != "usable":
            raise EnvironmentLacks("DEVICE-UNUSABLE", f"{chosen.id} cannot be used: {chosen.reason or chosen.state}", chosen.fix)
    if chosen.target.startswith("cpu"):
        return chosen.id, "cpu"
    if chosen.target not in FRAMEWORK_DEVICE:
        raise EnvironmentLacks("NO-BACKEND", f"no backend measures a device of target {chosen.target}", "`advisor bench --list` shows them")
    ordinal = [d.id for d in usable if d.target == chosen.target].index(chosen.id)
    return chosen.id, f"{FRAMEWORK_DEVICE[chosen.target]}:{ordinal}"
