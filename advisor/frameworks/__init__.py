"""One descriptor a framework: how to find it, what it can run where, its overheads, its trial.

Each module binds ``FRAMEWORK``, a FrameworkSpec. Importing a descriptor never imports the framework.
"""

from __future__ import annotations

from advisor.frameworks._spec import Capability, FrameworkSpec
from advisor.plugins import discover

__all__ = ["Capability", "FrameworkSpec", "all_frameworks", "framework"]


def all_frameworks() -> tuple[FrameworkSpec, ...]:
    """Return every known framework, built-in and third-party, in order of name."""
    found: tuple[FrameworkSpec, ...] = discover("advisor.frameworks", "FRAMEWORK")
    return found


def framework(name: str) -> FrameworkSpec | None:
    """Return the descriptor called ``name``, or None."""
    return next((spec for spec in all_frameworks() if spec.name == name), None)
