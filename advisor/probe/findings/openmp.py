"""Two OpenMP runtimes in one process start two pools of threads, and Intel's aborts when it meets its twin."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence

from advisor.probe.findings._context import Context
from advisor.probe.records import Finding

_RUNTIME = re.compile(r"^(?:lib)?(gomp|iomp5(?:md)?|omp)(?:[-.][\w.-]*)?\.(?:so|dylib|dll)(?:\.[\d.]+)?$")
_NAMES = {"gomp": "GNU libgomp", "iomp5": "Intel libiomp5", "iomp5md": "Intel libiomp5", "omp": "LLVM libomp"}


def runtimes_in(path: Sequence[str]) -> dict[str, list[str]]:
    """Return the runtimes that packages bring along, by name, with the packages: only the folders where wheels put libraries are read."""
    found: dict[str, list[str]] = {}
    for folder in path:
        for owner, library in _libraries(folder):
            match = _RUNTIME.match(library)
            if match:
                name = _NAMES[match[1]]
                if owner not in found.setdefault(name, []):
                    found[name].append(owner)
    return found


def _libraries(folder: str) -> Iterator[tuple[str, str]]:
    try:
        names = os.listdir(folder)
    except OSError:
        return
    places = [(name.removesuffix(".libs"), os.path.join(folder, name)) for name in names if name.endswith(".libs")]
    places += [(name, os.path.join(folder, name, "lib")) for name in ("torch", "functorch") if name in names]
    places += [(name, os.path.join(folder, name, ".dylibs")) for name in ("torch", "sklearn", "scipy") if name in names]
    for owner, place in places:
        try:
            yield from ((owner, library) for library in os.listdir(place))
        except OSError:
            continue


def two_runtimes(context: Context) -> Iterator[Finding]:
    """Packages of this environment bring different OpenMP runtimes."""
    if not context.root.is_live:
        return
    found = runtimes_in(sys.path)
    if "intel-openmp" in context.packages:
        found.setdefault(_NAMES["iomp5"], []).append("intel-openmp")
    if len(found) > 1:
        evidence = "; ".join(f"{name}: {', '.join(owners)}" for name, owners in sorted(found.items()))
        yield Finding(
            code="TWO_OPENMP_RUNTIMES",
            severity="warning",
            message=f"This environment brings {len(found)} OpenMP runtimes; a process that loads both has two pools of threads.",
            evidence=evidence,
            fix="use one source of packages (all pip or all conda); KMP_DUPLICATE_LIB_OK only hides it",
        )


FINDERS = (two_runtimes,)
