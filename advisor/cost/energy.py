"""Energy of a step from the rated power: a device draws its idle share always and the rest while it computes.

Idle and busy shares are assumed: 0.25 and 0.90 of the rated power. That training draws close to the rated power and waits far below it is
what Patel et al. report ("Characterizing Power Management Opportunities for LLMs in the Cloud", ASPLOS'24); the two numbers themselves were
not checked against it. Host and cooling are not counted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.hardware.platform import Platform

Floats = npt.NDArray[np.float64]

IDLE_SHARE = 0.25
BUSY_SHARE = 0.90


def energy_j(platform: Platform, time_s: Floats, busy: Floats, devices: Floats) -> Floats | None:
    """Return joules of all ``devices`` over ``time_s`` with the share ``busy`` of it spent computing; None if the power is unknown."""
    rated = platform.profile.tdp_w
    if rated is None:
        return None
    return rated * time_s * devices * (IDLE_SHARE + (BUSY_SHARE - IDLE_SHARE) * np.clip(busy, 0.0, 1.0))
