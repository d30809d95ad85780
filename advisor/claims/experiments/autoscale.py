"""Replica-hours of a day's load, scaled on demand over fixed for the peak: a simulation, nothing is measured.

Parameters: ``loads``, each ``label``, ``floor`` (load at night as a share of the peak) and ``sharpness`` of the peak; ``peak_replicas``,
``target`` utilisation, ``lag`` in slots of five minutes, ``least`` replicas that always run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.claims.records import Claim, Context, Experiment, Outcome, Setting
from advisor.claims.simulate import day_load, replica_hours


def run(parameters: Mapping[str, Any], claim: Claim, context: Context) -> Outcome:
    """Return a setting for each load."""
    settings = []
    for load in parameters["loads"]:
        peak = int(parameters.get("peak_replicas") or 20)
        trace = day_load(float(load["floor"]), float(load["sharpness"]))
        share = replica_hours(
            trace, peak, float(parameters.get("target") or 0.7), int(parameters.get("lag") or 1), int(parameters.get("least") or 1)
        )
        detail = {"mean_load": sum(trace) / len(trace), "peak_replicas": peak}
        settings.append(Setting(label=str(load["label"]), value=share, detail=detail))
    return Outcome(settings=tuple(settings))


EXPERIMENT = Experiment(
    name="autoscale",
    title="a day of serving, simulated",
    basis="predicted",
    run=run,
    needs=("loads",),
    options=("peak_replicas", "target", "lag", "least"),
)
