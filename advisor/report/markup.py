"""HTML and SVG elements as values: everything that is put in is escaped unless it is an element itself. Standard library only."""

from __future__ import annotations

from html import escape
from typing import Any

#: HTML elements without an end.
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Markup:
    """A piece of HTML or SVG that is safe to put in a page. Jinja2 knows it by ``__html__``."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __html__(self) -> str:
        return self._text

    def __str__(self) -> str:
        return self._text


def text_of(value: Any) -> str:
    """Return ``value`` as markup: elements as they are, lists joined, None as nothing, anything else escaped."""
    if value is None:
        return ""
    if isinstance(value, Markup):
        return str(value)
    if isinstance(value, list | tuple):
        return "".join(text_of(item) for item in value)
    return escape(str(value))


def h(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Return the element ``name``. ``class_`` is class, other underscores are hyphens; an attribute of None or False is left out."""
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        written.append(f" {key}" if value is True else f' {key}="{escape(_plain(value))}"')
    start = f"<{name}{''.join(written)}>"
    return Markup(start if name in _VOID else f"{start}{text_of(children)}</{name}>")


def _plain(value: Any) -> str:
    """Return an attribute's text; coordinates are written with two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def join(*parts: Any) -> Markup:
    """Return ``parts`` one after the other."""
    return Markup(text_of(parts))


def table(headers: list[str], rows: list[list[Any]], *, numeric: tuple[int, ...] = (), caption: str | None = None) -> Markup:
    """Return a table that scrolls by itself on a narrow screen; columns in ``numeric`` are set right."""
    align = ["num" if index in numeric else None for index in range(len(headers))]
    head = h("tr", *(h("th", name, scope="col", class_=kind) for name, kind in zip(headers, align, strict=True)))
    body = [h("tr", *(h("td", cell, class_=kind) for cell, kind in zip(row, align, strict=True))) for row in rows]
    inner = h("table", h("caption", caption) if caption else None, h("thead", head), h("tbody", *body))
    return h("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption or "table")
