"""The newest measurements of some filters, by the columns: a page of any selection takes the same time. Needs numpy."""

from __future__ import annotations

from datetime import datetime

import numpy as np
from sqlalchemy.engine import Connection

from advisor.results.columns import microseconds
from advisor.results.filters import Filters
from advisor.results.frame import Array, Frame, load, order_newest_first, pack_ids


def newest_ids(connection: Connection, filters: Filters, after: tuple[datetime | None, str] | None = None) -> list[str]:
    """Return the ids of the measurements of ``filters``, newest first, those of unknown date last, at most ``filters.limit``.

    ``after`` is the date and id of the last that was seen: only those behind it are returned. With ``latest``, only the newest of each
    series counts.
    """
    frame = load(connection, filters, ["ids", "moments", *(["series"] if filters.latest else [])])
    if filters.latest:
        frame = frame.where(_latest(frame))
    if after is not None:
        frame = frame.where(_behind(frame, microseconds(after[0]), pack_ids(connection, [after[1]])))
    if filters.limit is not None and len(frame) > filters.limit:
        moments = frame["moments"]
        frame = frame.where(moments >= np.partition(moments, len(moments) - filters.limit)[len(moments) - filters.limit])
    return [frame.id_of(index) for index in order_newest_first(frame)[: filters.limit]]


def _behind(frame: Frame, moment: int, packed: Array) -> Array:
    moments, ids = frame["moments"], frame["ids"]
    if not len(packed):
        earlier: Array = moments < moment
        return earlier
    high, low = packed[0]
    lesser = (ids[:, 0] < high) | ((ids[:, 0] == high) & (ids[:, 1] < low))
    behind: Array = (moments < moment) | ((moments == moment) & lesser)
    return behind


def _latest(frame: Frame) -> Array:
    """Return which measurements are the newest of their series."""
    order = order_newest_first(frame)
    _, first = np.unique(frame["series"][order], return_index=True)
    mask = np.zeros(len(frame), dtype=bool)
    mask[order[first]] = True
    return mask
