"""Calibration: every fitted number of the cost model, with its meaning, prior, bounds and spread.

The cost model reads values by name and knows nothing of where they come from. Values live in data files
(``db/calibration/*.json``), one section a file; ``Calibration.prior()`` holds the priors alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from advisor.cost.parameter import Parameter
from advisor.cost.parameters import PARAMETERS, SIGMA_PRIOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """All parameters by name, the spread of predictions by evidence, and the data of other sections.

    ``sections`` holds what each data file says apart from the parameters declared here (``kernels`` for the kernel curves,
    ``inference`` …); their readers interpret them. ``sigma`` maps ``"<task>.<evidence>"`` to the standard deviation of
    log(measured / predicted) on groups that were left out of the fit.
    """

    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    sigma: Mapping[str, float] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        """Return the value of parameter ``name``; KeyError if it is not declared."""
        return self.parameters[name].value

    def section(self, name: str) -> Mapping[str, Any]:
        """Return the data of section ``name``, empty if no file gave it."""
        return self.sections.get(name, {})

    def with_values(self, values: Mapping[str, float], spreads: Mapping[str, float] | None = None) -> Calibration:
        """Return a copy with some values (and spreads) replaced; values are clipped to their bounds, KeyError for an unknown name."""
        changed = dict(self.parameters)
        for name, value in values.items():
            old = changed[name]
            spread = (spreads or {}).get(name, old.spread)
            changed[name] = replace(old, value=min(max(float(value), old.low), old.high), spread=spread)
        return replace(self, parameters=changed)

    @classmethod
    def prior(cls, sections: Mapping[str, Mapping[str, Any]] | None = None) -> Calibration:
        """Return the calibration that has seen no measurement."""
        return cls(parameters={p.name: p for p in PARAMETERS}, sigma=dict(SIGMA_PRIOR), sections=dict(sections or {}))
