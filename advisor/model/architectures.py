"""Every family of models, built in or plugged in, and the builder of each ``model_type``."""

from __future__ import annotations

from functools import lru_cache

from advisor.model.family import Builder, Family
from advisor.plugins import discover


@lru_cache(maxsize=1)
def families() -> tuple[Family, ...]:
    """Return every family, built in or plugged in."""
    return discover("advisor.model.families", "FAMILY")


@lru_cache(maxsize=1)
def architectures() -> dict[str, Builder]:
    """Return the builders by ``model_type``."""
    return {kind: build for family in families() for kind, build in family.architectures.items()}
