"""The project's charts: roofline, bars, predicted against measured, history. Each takes plain numbers and returns an ``svg`` element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from advisor.report.markup import Markup, h
from advisor.report.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Scale, axes, colour, figure, legend, log_range
from advisor.units import format_rate, format_seconds

#: Height of one bar with its gap.
_ROW = 26.0
#: Width kept for names and for numbers beside bars, and how many characters of a name that holds.
_NAMES, _NUMBERS, _NAME_LENGTH = 210.0, 150.0, 32


def roofline(title: str, document: Mapping[str, Any]) -> Markup | None:
    """Return the roofline of ``usecases.roofline``'s document: roofs as lines, what was reached as points; None without any number."""
    roofs, points, bandwidths = document["roofs"], document["points"], document["bandwidths"]
    rates = [roof["flops_per_s"] for roof in roofs] + [point["flops_per_s"] for point in points]
    if not rates:
        return None
    fastest = max((line["bytes_per_s"] for line in bandwidths), default=None)
    ridges = [roof["flops_per_s"] / line["bytes_per_s"] for roof in roofs for line in bandwidths]
    x_low, x_high = log_range([*(point["intensity"] for point in points), *ridges, 1.0], pad=2.0)
    slopes = [x_low * fastest * 4] if fastest else []
    y_low, y_high = log_range([*rates, *slopes])
    x = Scale(low=x_low, high=x_high, start=LEFT, end=WIDTH - RIGHT, log=True)
    y = Scale(low=y_low, high=y_high, start=HEIGHT - BOTTOM, end=TOP, log=True)
    names = list(dict.fromkeys(item["dtype"] for item in (*roofs, *points)))
    parts = axes(
        x,
        y,
        x_title="FLOP per byte of memory traffic",
        y_title="FLOP/s",
        x_text=lambda v: f"{v:g}",
        y_text=lambda v: format_rate(v, "flops_per_s").replace(".0 ", " ").replace("FLOP/s", ""),
    )
    for line in bandwidths:
        start = max(x_low, y_low / line["bytes_per_s"])
        top = max((roof["flops_per_s"] for roof in roofs), default=y_high)
        end = min(x_high, top / line["bytes_per_s"])
        if start < end:
            style = "roof memory" if line["kind"] == "sheet" else "roof memory measured"
            parts.append(_line(x, y, (start, start * line["bytes_per_s"]), (end, end * line["bytes_per_s"]), style, _bandwidth(line)))
    for roof in roofs:
        start = roof["flops_per_s"] / fastest if fastest else x_low
        name = f"{roof['dtype']} peak {format_rate(roof['flops_per_s'], 'flops_per_s')}"
        style = f"roof {colour(names.index(roof['dtype']))}"
        parts.append(_line(x, y, (max(start, x_low), roof["flops_per_s"]), (x_high, roof["flops_per_s"]), style, name))
    for point in points:
        name = f"{point['dtype']} {point['label']}: {format_rate(point['flops_per_s'], 'flops_per_s')}"
        parts.append(_dot(x(point["intensity"]), y(point["flops_per_s"]), colour(names.index(point["dtype"])), name))
    parts += legend(names, WIDTH - RIGHT, 16.0)
    told = f"{len(points)} measured points under {len(roofs)} peaks and {len(bandwidths)} memory bandwidths, both axes logarithmic"
    return figure(title, told, *parts)


def _bandwidth(line: Mapping[str, Any]) -> str:
    return f"memory bandwidth, {line['kind']}: {format_rate(line['bytes_per_s'], 'bytes_per_s')}"


def _line(x: Scale, y: Scale, start: tuple[float, float], end: tuple[float, float], style: str, name: str) -> Markup:
    return h("line", h("title", name), x1=x(start[0]), y1=y(start[1]), x2=x(end[0]), y2=y(end[1]), class_=style)


def _dot(x: float, y: float, style: str, name: str) -> Markup:
    return h("circle", h("title", name), cx=x, cy=y, r=3.2, class_=f"dot {style}")


def bars(title: str, rows: Sequence[Mapping[str, Any]], write: Callable[[float], str]) -> Markup | None:
    """Return horizontal bars; a row has ``name``, ``value``, and ``low`` and ``high`` where its spread is known. None without rows."""
    rows = [row for row in rows if row["value"] is not None and row["value"] >= 0]
    top = max((max(row["value"], row.get("high") or 0) for row in rows), default=0.0)
    if top <= 0:
        return None
    scale = Scale(low=0.0, high=top, start=_NAMES, end=WIDTH - _NUMBERS)
    parts: list[Markup] = []
    for index, row in enumerate(rows):
        y = 8 + index * _ROW
        name, end = str(row["name"]), scale(row["value"])
        short = name if len(name) <= _NAME_LENGTH else name[: _NAME_LENGTH - 1] + "…"
        parts.append(h("text", h("title", name), short, x=_NAMES - 8, y=y + 14, class_="tick end"))
        parts.append(
            h(
                "rect",
                h("title", f"{name}: {write(row['value'])}"),
                x=_NAMES,
                y=y,
                width=max(end - _NAMES, 1.0),
                height=18.0,
                rx=2.0,
                class_="bar c0",
            )
        )
        reach = end
        if row.get("low") is not None and row.get("high") is not None:
            low, reach = scale(row["low"]), max(end, scale(row["high"]))
            parts.append(h("line", x1=low, x2=scale(row["high"]), y1=y + 9, y2=y + 9, class_="whisker"))
        parts.append(h("text", write(row["value"]), x=reach + 8, y=y + 14, class_="tick strong"))
    return figure(title, f"{len(rows)} bars, the longest {write(top)}", *parts, height=16 + _ROW * len(rows))


def _power_of_time(seconds: float) -> str:
    """Write a tick of a logarithmic axis of time: powers of ten stay powers of ten."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= factor * 0.999:
            return f"{seconds / factor:,.6g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def scatter(title: str, points: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Return predicted against measured seconds, both logarithmic, with the line of equality and factors of 1.25 around it."""
    points = [p for p in points if (p["measured"] or 0) > 0 and (p["predicted"] or 0) > 0]
    if not points:
        return None
    low, high = log_range([value for p in points for value in (p["measured"], p["predicted"])])
    x = Scale(low=low, high=high, start=LEFT, end=WIDTH - RIGHT, log=True)
    y = Scale(low=low, high=high, start=HEIGHT + 120 - BOTTOM, end=TOP, log=True)
    parts = axes(x, y, x_title="measured", y_title="predicted", x_text=_power_of_time, y_text=_power_of_time)
    band = [(low, low * 1.25), (high / 1.25, high), (high, high), (high, high / 1.25), (low * 1.25, low), (low, low)]
    parts.append(h("polygon", h("title", "within 25 %"), points=" ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in band), class_="band"))
    parts.append(_line(x, y, (low, low), (high, high), "equal", "predicted = measured"))
    groups = sorted({p["group"] for p in points}, key=lambda name: (-sum(p["group"] == name for p in points), name))
    for p in points:
        ratio = 100 * (p["predicted"] / p["measured"] - 1)
        name = f"{p['id']}: measured {format_seconds(p['measured'])}, predicted {format_seconds(p['predicted'])} ({ratio:+.0f} %)"
        parts.append(
            h(
                "circle",
                h("title", name),
                cx=x(p["measured"]),
                cy=y(p["predicted"]),
                r=2.4,
                class_=f"dot faint {colour(groups.index(p['group']))}",
            )
        )
    shown = groups if len(groups) <= 6 else [*groups[:5], "other"]
    parts += legend(shown, WIDTH - RIGHT, 16.0)
    return figure(title, f"{len(points)} published rows; the shaded band is 25 % either way", *parts, height=HEIGHT + 120)


def history(title: str, series: Mapping[str, Sequence[tuple[float, str, float]]], write: Callable[[float], str]) -> Markup | None:
    """Return lines over time: by name, points of (position in seconds since 1970, its date as text, value)."""
    everything = [point for line in series.values() for point in line]
    if not everything:
        return None
    times = [point[0] for point in everything]
    dates = {point[0]: point[1] for point in everything}
    first, last = min(times), max(times)
    x = Scale(low=first, high=last if last > first else first + 1, start=LEFT + 20, end=WIDTH - RIGHT - 40)
    y = Scale(low=0.0, high=max(point[2] for point in everything) * 1.1, start=HEIGHT - 120 - BOTTOM, end=TOP)
    frame = Scale(low=0.0, high=1.0, start=LEFT, end=WIDTH - RIGHT)
    parts = axes(frame, y, x_title="", y_title="", x_text=lambda _: "", y_text=write)
    parts += [h("text", dates[at], x=x(at), y=y.start + 17, class_="tick mid") for at in dict.fromkeys((first, last))]
    for index, (name, line) in enumerate(series.items()):
        path = " ".join(f"{x(t):.1f},{y(value):.1f}" for t, _, value in line)
        parts.append(h("polyline", points=path, class_=f"line {colour(index)}"))
        parts += [_dot(x(t), y(value), colour(index), f"{name}, {day}: {write(value)}") for t, day, value in line]
    parts += legend(list(series)[:6], WIDTH - RIGHT, 16.0)
    return figure(title, f"{len(series)} lines from {dates[first]} to {dates[last]}", *parts, height=HEIGHT - 120)
