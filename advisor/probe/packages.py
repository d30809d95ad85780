"""Distributions installed for this interpreter, by the names of their metadata folders: fast, and nothing is imported."""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache

_FOLDER = re.compile(r"^(?P<name>.+?)-(?P<version>\d[^-]*)(?:-.*)?\.(?:dist-info|egg-info)$")


def normalize(name: str) -> str:
    """Return a distribution's name in the one spelling PEP 503 gives it: lower case, single hyphens."""
    return re.sub(r"[-_.]+", "-", name).lower()


@lru_cache(maxsize=1)
def installed_packages() -> dict[str, str]:
    """Return normalized name to version of what ``sys.path`` offers; the first on the path wins, as it does on import."""
    return packages_on(tuple(sys.path))


def packages_on(path: tuple[str, ...]) -> dict[str, str]:
    """Return normalized name to version of the distributions whose metadata lies in a folder of ``path``."""
    found: dict[str, str] = {}
    for folder in path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            match = _FOLDER.match(name)
            if match:
                found.setdefault(normalize(match["name"]), match["version"])
    return found
