"""A model family: how its configurations become a Model, and its members known by name. One file a family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from advisor.model.fields import Fields
from advisor.model.records import Model

Builder = Callable[[Fields, str], Model]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A member of a family: its sizes as a configuration (``model_type`` picks the architecture), and where they are published."""

    name: str
    config: Mapping[str, Any]
    source: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What one file under ``families/`` registers as ``FAMILY``.

    ``architectures`` maps a ``model_type`` of a configuration to the function that builds the Model.
    """

    name: str
    title: str
    architectures: Mapping[str, Builder]
    entries: tuple[Entry, ...] = field(default=())
