"""Find the parts that are added by adding a file: frameworks, exporters, model families, readers.

A built-in part is a module of a package (``advisor/frameworks/torch.py``) that binds one agreed name (``FRAMEWORK``).
A third-party part is an entry point in the group ``advisor.<kind>`` that loads to the same kind of object.
A broken plug-in is reported as a warning and left out; it never takes the command down.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import warnings
from functools import cache
from typing import Any


class PluginWarning(UserWarning):
    """A third-party part could not be loaded."""


@cache
def discover(package: str, attribute: str) -> tuple[Any, ...]:
    """Return every object bound to ``attribute`` in the modules of ``package``, then those of entry points.

    ``package`` is a dotted name under ``advisor`` (``advisor.frameworks``); the entry-point group has the same name.
    Modules whose name begins with an underscore are helpers and are passed over.
    """
    found: list[Any] = []
    for info in sorted(pkgutil.iter_modules(importlib.import_module(package).__path__), key=lambda m: m.name):
        if info.name.startswith("_"):
            continue
        part = getattr(importlib.import_module(f"{package}.{info.name}"), attribute, None)
        if part is not None:
            found.append(part)
    for entry in importlib.metadata.entry_points(group=package):
        try:
            found.append(entry.load())
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything; the answer must still come
            warnings.warn(f"plug-in {entry.name!r} of {package} could not be loaded: {error}", PluginWarning, stacklevel=2)
    return tuple(found)
