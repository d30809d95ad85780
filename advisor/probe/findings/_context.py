"""Context: what a finder may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from advisor.probe.host import HostFacts
from advisor.probe.records import Device, Finding, Framework, Host
from advisor.probe.root import Root


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The machine in the making. ``packages`` is normalized distribution name to version, empty on a recorded machine."""

    root: Root
    host: Host
    facts: HostFacts
    devices: tuple[Device, ...] = ()
    frameworks: tuple[Framework, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of the machine; empty on a recorded one."""
        return self.root.environ

    @property
    def in_container(self) -> bool:
        """Tell whether the probe runs in a container of any kind."""
        return self.host.container not in (None, "none")

    def has_target(self, *targets: str) -> bool:
        """Tell whether a device of one of ``targets`` is present, usable or not."""
        return any(device.target in targets for device in self.devices)


Finder = Callable[[Context], Iterable[Finding]]
