"""Published measurements set against each other: rows that ship with the product, cited by their ids.

Parameters: ``kind`` (training, inference, classic), ``value`` (the column compared), ``a`` and ``b`` (column to its text, to a list of
texts, or to ``{contains: text}``), ``pair_by`` (columns on which rows of A and B must agree). Each pair gives one ratio of A to B;
``invert`` takes B to A (for columns in which less is better). Without ``b`` the values of A themselves are the samples, times ``scale``;
``pick: max`` takes the largest alone. ``by`` splits the pairs into settings by a column.
``scaling: true`` divides each ratio by the ratio of device counts: a scaling efficiency.

The samples are different workloads, so the interval is that of their geometric mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.claims.records import Claim, Context, Experiment, Outcome, Setting
from advisor.results.published import read_published

Row = Mapping[str, str]
#: Relative spread between repeats of one published configuration, which a single pair has too (``bloom_prequel`` in SOURCES.md: 1 to 3 %).
DRIFT = 0.03
#: As many rows as a reader wants to look up.
CITED = 40


def matches(row: Row, wanted: Mapping[str, Any]) -> bool:
    """Tell whether a row has every value that ``wanted`` names."""
    for column, value in wanted.items():
        text = row.get(column, "")
        if isinstance(value, Mapping):
            if str(value["contains"]).lower() not in text.lower():
                return False
        elif text not in ([str(item) for item in value] if isinstance(value, list) else [str(value)]):
            return False
    return True


def number(row: Row, column: str) -> float | None:
    """Return a positive number of a row, or None where the source is silent."""
    try:
        value = float(row.get(column, ""))
    except ValueError:
        return None
    return value if value > 0 else None


def pairs(rows: list[Row], parameters: Mapping[str, Any]) -> list[tuple[Row, Row | None]]:
    """Return rows of A with the row of B that agrees in ``pair_by`` (the first of several), or with None where there is no B."""
    column = parameters["value"]
    ours = [row for row in rows if number(row, column) and matches(row, parameters["a"])]
    if not parameters.get("b"):
        return [(row, None) for row in ours]
    keys = parameters.get("pair_by") or []
    theirs: dict[tuple[str, ...], Row] = {}
    for row in rows:
        if number(row, column) and matches(row, parameters["b"]):
            theirs.setdefault(tuple(row[name] for name in keys), row)
    return [(row, theirs[key]) for row in ours if (key := tuple(row[name] for name in keys)) in theirs]


def run(parameters: Mapping[str, Any], claim: Claim, context: Context) -> Outcome:
    """Return one setting over all pairs, or one for each value of the column ``by``."""
    rows: list[Row] = list(read_published(parameters["kind"]))
    groups: dict[str, list[tuple[float, list[str]]]] = {}
    for ours, theirs in pairs(rows, parameters):
        label = ours[parameters["by"]] if parameters.get("by") else str(parameters.get("label") or "published rows")
        groups.setdefault(label, []).append((_value(ours, theirs, parameters), [row["id"] for row in (ours, theirs) if row is not None]))
    if not groups:
        return Outcome(lacks="no published rows of both sides that can be set against each other")
    settings = []
    for label, found in groups.items():
        kept = [max(found, key=lambda item: item[0])] if parameters.get("pick") == "max" else found
        ids = tuple(dict.fromkeys(name for _, names in kept for name in names))
        settings.append(
            Setting(
                label=label,
                samples=tuple(value for value, _ in kept),
                evidence=ids[:CITED],
                detail={"rows": len(ids), "pairs": len(kept)},
            )
        )
    return Outcome(settings=tuple(settings), drift=DRIFT)


def _value(ours: Row, theirs: Row | None, parameters: Mapping[str, Any]) -> float:
    column = parameters["value"]
    value = number(ours, column) or 0.0
    if theirs is None:
        return value * float(parameters.get("scale") or 1.0)
    ratio = value / (number(theirs, column) or 1.0)
    if parameters.get("scaling"):
        ratio /= float(ours["n_devices"]) / float(theirs["n_devices"])
    return 1 / ratio if parameters.get("invert") else ratio


EXPERIMENT = Experiment(
    name="published",
    title="published measurements set against each other",
    basis="published",
    run=run,
    needs=("kind", "value", "a"),
    options=("b", "pair_by", "by", "label", "pick", "scale", "scaling", "invert"),
)
