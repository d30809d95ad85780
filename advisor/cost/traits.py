"""What a plan's framework does in training: its descriptor's traits, found by name, under the plan's way of execution and on the target."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from advisor.frameworks import FrameworkSpec, all_frameworks
from advisor.frameworks._training import Traits, compiled

#: Of a framework that says nothing of itself.
GENERIC: Final = Traits()
#: Ways of execution in which a compiler fuses element-wise work.
_COMPILING: Final = frozenset({"compile", "jit", "graph", "script", "engine"})


@lru_cache(maxsize=256)
def traits_of(framework: str, execution: str, target: str = "cuda") -> Traits:
    """Return the traits of ``framework`` (or of published software built on one) on devices of ``target``."""
    spec = _spec_of(framework)
    if spec is None:
        traits = GENERIC
    elif framework in spec.stacks:
        traits = spec.stacks[framework]
    else:
        traits = spec.training_on.get(target) or spec.training or GENERIC
    return compiled(traits) if execution in _COMPILING and traits.fusion == "eager" else traits


def family_of(framework: str) -> str:
    """Return the framework whose published measurements say how ``framework`` does; itself if no descriptor claims it."""
    spec = _spec_of(framework)
    return framework if spec is None else spec.name


@lru_cache(maxsize=256)
def _spec_of(framework: str) -> FrameworkSpec | None:
    every = all_frameworks()
    own = next((spec for spec in every if spec.name == framework), None)
    return own or next((spec for spec in every if framework in spec.stacks), None)
