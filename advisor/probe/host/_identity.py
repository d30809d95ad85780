"""Identity: which processor it is, apart from how many there are."""

from __future__ import annotations

from dataclasses import dataclass, field

from advisor.probe.records import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Architecture, maker, model and features of the host's processors; ``reasons`` says why a value is missing, by its path."""

    arch: str | None
    vendor: str | None
    model: str | None
    microarchitecture: str | None
    isa: tuple[str, ...]
    clusters: tuple[Cluster, ...] = ()
    reasons: dict[str, str] = field(default_factory=dict)
