"""Load the calibration that ships with the product, or one that the user fitted."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from advisor.cost.calibration import Calibration
from advisor.errors import UsageError
from advisor.resources import data_dir, user_data_dir


def _sections_in(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.json"))
    except OSError:
        return []  # a home that this user may not look into holds no calibration of theirs


def calibration_from(*folders: Path) -> Calibration:
    """Return the calibration in ``folders``: one JSON file a section, ``training.json`` with the parameter values; later folders win.

    A parameter that the file does not mention keeps its prior; a name it mentions that no longer exists is passed over.
    """
    sections: dict[str, dict[str, Any]] = {}
    for path in [found for folder in folders for found in _sections_in(folder)]:
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(
                f"calibration file {path} cannot be read: {error}", "run `advisor calibrate` again", "BAD-CALIBRATION"
            ) from error
        if not isinstance(document, dict):
            raise UsageError(f"calibration file {path} is not a JSON object", "run `advisor calibrate` again", "BAD-CALIBRATION")
        sections[path.stem] = document
    calibration = Calibration.prior(sections)
    fitted = sections.get("training", {})
    values = {name: entry for name, entry in fitted.get("parameters", {}).items() if name in calibration.parameters}
    calibration = calibration.with_values(
        {name: float(entry["value"]) for name, entry in values.items()},
        {name: float(entry["spread"]) for name, entry in values.items() if entry.get("spread") is not None},
    )
    sigma = {**calibration.sigma, **{str(k): float(v) for k, v in fitted.get("sigma", {}).items()}}
    provenance = {str(k): str(v) for k, v in fitted.get("provenance", {}).items()}
    return Calibration(parameters=calibration.parameters, sigma=sigma, sections=sections, provenance=provenance)


@lru_cache(maxsize=1)
def load_calibration() -> Calibration:
    """Return the shipped calibration, each section replaced by the user's own where ``advisor calibrate`` wrote one."""
    return calibration_from(data_dir("db") / "calibration", user_data_dir() / "calibration")
