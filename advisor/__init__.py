"""advisor: which framework, precision, batch size and parallelism for a model on this hardware, and why to believe it.

The Python interface is ``probe``, ``recommend`` and ``estimate`` (see ``advisor.api``); they load only when used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.api import estimate, probe, recommend
else:
    # The package ``advisor.probe`` is callable, so that ``from advisor import probe`` is the function whatever was imported before.
    from advisor import probe

__all__ = ["estimate", "probe", "recommend"]


def __getattr__(name: str) -> Any:
    if name in ("estimate", "recommend"):
        from advisor import api

        return getattr(api, name)
    raise AttributeError(f"module 'advisor' has no attribute {name!r}")
