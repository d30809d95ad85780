"""price: the one entry of the cost model. A table of plans in, a table of predictions out."""

from __future__ import annotations

from advisor.cost.calibration import Calibration
from advisor.cost.convolutional import price_convolutional
from advisor.cost.inference import price_inference
from advisor.cost.price_training import price_training
from advisor.cost.priced import BOTTLENECKS, COMFORT_Z, PricedTable, comfortable
from advisor.hardware.platform import Platform
from advisor.model.records import Model
from advisor.plan.records import Workload
from advisor.plan.table import PlanTable

__all__ = ["BOTTLENECKS", "COMFORT_Z", "PricedTable", "comfortable", "price"]


def price(model: Model, workload: Workload, platform: Platform, plans: PlanTable, calibration: Calibration) -> PricedTable:
    """Return the predictions of every plan of ``plans`` for ``workload`` on ``platform``, vectorised over the plans.

    Plans are taken as legal (``advisor.plan.legal``); whether they fit memory is told, not required.
    """
    if not workload.is_training:
        return price_inference(model, workload, platform, plans, calibration)
    if model.transformer is None:
        return price_convolutional(model, workload, platform, plans, calibration)
    return price_training(model, workload, platform, plans, calibration)
