"""How long a request waits for a free place in a batch when requests arrive at a rate.

The places of all replicas are servers that take one batch latency each; arrivals are random (Poisson), service is nearly constant.
Sakasegawa's approximation for M/G/c (Annals of the Institute of Statistical Mathematics 29, 1977), with no variance of service:

    wait = 1/2 * load**(sqrt(2*(places + 1)) - 1) / (places * (1 - load)) * service        load = rate * service / places
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: A stable queue needs a load below 1; beyond this one the wait is that of a queue which hardly drains.
_FULL = 0.995


def load(service_s: Floats, places: Floats, rate: float) -> Floats:
    """Return the share of places that arrivals at ``rate`` requests a second keep busy; 1 and more cannot be served."""
    return rate * service_s / np.maximum(places, 1.0)


def waiting_s(service_s: Any, places: Any, rate: float) -> Floats:
    """Return the mean wait in seconds for arrays of batch latencies and places; finite also where the load is too high."""
    service, c = (np.asarray(x, dtype=np.float64) for x in np.broadcast_arrays(service_s, np.maximum(places, 1.0)))
    busy = np.minimum(load(service, c, rate), _FULL)
    return 0.5 * busy ** (np.sqrt(2.0 * (c + 1.0)) - 1.0) / (c * (1.0 - busy)) * service
