"""What every chart shares: scales, axes, the frame, and the style of a picture that stands alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from advisor.report.markup import Markup, h

WIDTH, HEIGHT = 720.0, 400.0
LEFT, RIGHT, TOP, BOTTOM = 76.0, 26.0, 34.0, 46.0
#: How many colours tell series apart; further ones share the last.
COLOURS = 6
STATIC = Path(__file__).resolve().parent / "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Maps values from ``low`` to ``high`` to positions from ``start`` to ``end``, by logarithms where ``log``."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, x = (math.log10(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        share = (x - low) / (high - low) if high > low else 0.5
        return self.start + min(max(share, -0.02), 1.02) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round values along the scale: powers of ten (1, 2, 5 where there are few), or multiples of 1, 2 or 5."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            steps = (1, 2, 5) if last - first <= 2 else (1,)
            every = max(1, (last - first) // 8)
            found = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
        else:
            raw = (self.high - self.low) / 5 or 1.0
            power = 10.0 ** math.floor(math.log10(raw))
            step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
            first = math.ceil(self.low / step - 1e-9)
            found = [index * step for index in range(first, first + 12)]
        return [value for value in found if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)]


def log_range(values: Sequence[float], *, pad: float = 1.3) -> tuple[float, float]:
    """Return limits of a logarithmic axis around positive ``values``, at least a decade apart."""
    low, high = min(values) / pad, max(values) * pad
    if high / low < 10:
        middle = math.sqrt(low * high)
        low, high = middle / 3.2, middle * 3.2
    return low, high


def colour(index: int) -> str:
    """Return the class of the ``index``-th series' colour."""
    return f"c{min(index, COLOURS - 1)}"


def axes(x: Scale, y: Scale, *, x_title: str, y_title: str, x_text: Callable[[float], str], y_text: Callable[[float], str]) -> list[Markup]:
    """Return grid lines, tick labels and axis titles."""
    parts: list[Markup] = []
    for value in y.ticks():
        at = y(value)
        parts.append(h("line", x1=x.start, x2=x.end, y1=at, y2=at, class_="grid"))
        parts.append(h("text", y_text(value), x=x.start - 8, y=at + 4, class_="tick end"))
    for value in x.ticks():
        at = x(value)
        parts.append(h("line", x1=at, x2=at, y1=y.start, y2=y.end, class_="grid"))
        parts.append(h("text", x_text(value), x=at, y=y.start + 17, class_="tick mid"))
    parts.append(h("line", x1=x.start, x2=x.end, y1=y.start, y2=y.start, class_="axis"))
    parts.append(h("text", x_title, x=(x.start + x.end) / 2, y=y.start + 37, class_="label mid"))
    parts.append(h("text", y_title, x=8.0, y=y.end - 14, class_="label"))
    return parts


def legend(names: Sequence[str], x: float, y: float) -> list[Markup]:
    """Return coloured marks with the names of the series, in a row that ends at the right edge."""
    parts: list[Markup] = []
    at = x - sum(24 + 6.6 * len(name) for name in names)
    for index, name in enumerate(names):
        parts.append(h("circle", cx=at + 5, cy=y - 4, r=4.5, class_=f"dot {colour(index)}"))
        parts.append(h("text", name, x=at + 14, y=y, class_="tick"))
        at += 24 + 6.6 * len(name)
    return parts


def figure(title: str, description: str, *parts: Any, height: float = HEIGHT, width: float = WIDTH) -> Markup:
    """Return the ``svg`` element; ``title`` and ``description`` are what a screen reader says."""
    return h(
        "svg",
        h("title", title),
        h("desc", description),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=f"{title}. {description}",
        class_="chart",
    )


@cache
def chart_style() -> str:
    """Return the style sheet of charts."""
    return (STATIC / "charts.css").read_text(encoding="utf-8")


def standalone(chart: Markup) -> str:
    """Return the text of an ``.svg`` file that looks the same without the page, in light and dark."""
    start, _, rest = str(chart).partition(">")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{start}><style>{chart_style()}</style>{rest}\n'
