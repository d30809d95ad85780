"""Sheets of devices and systems as people read them."""

from __future__ import annotations

from typing import Any

from advisor.report.console import console


def render_list(document: dict[str, Any], *, systems: bool = False) -> None:
    """Print the table of ``advisor hardware list``: devices, or systems."""
    from rich.table import Table

    out = console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    if systems:
        for title, justify in (
            ("system", "left"),
            ("device", "left"),
            ("per node", "right"),
            ("inside", "left"),
            ("network a node", "left"),
        ):
            table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
        for row in document["systems"]:
            table.add_row(row["id"], row["device"], str(row["devices_per_node"]), row["intra_node"], row["network"] or "-")
        out.print(table)
        out.print(f"[dim]{len(document['systems'])} systems · advisor hardware show NAME[/]")
        return
    for title, justify in (
        ("device", "left"),
        ("vendor", "left"),
        ("arch", "left"),
        ("GiB", "right"),
        ("GB/s", "right"),
        ("fp32", "right"),
        ("16 bit", "right"),
        ("8 bit", "right"),
        ("default system", "left"),
    ):
        table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in document["devices"]:
        peaks = row["dense_tflops"]
        table.add_row(
            row["id"],
            row["vendor"],
            row["arch"] or "-",
            _number(row["memory_gib"]),
            _number(row["memory_gb_per_s"]),
            _number(peaks.get("fp32")),
            _number(peaks.get("bf16") or peaks.get("fp16")),
            _number(peaks.get("fp8") or peaks.get("int8")),
            row["default_system"] or "-",
        )
    out.print(table)
    out.print(f"[dim]{len(document['devices'])} devices; peaks dense, in TFLOP/s (8 bit: fp8, else int8 in TOP/s); - is not known[/]")
    out.print("[dim]next: advisor hardware show NAME · advisor hardware list --systems[/]")


def render_sheet(document: dict[str, Any]) -> None:
    """Print one sheet: every value with the tags of its sources, then what the tags stand for."""
    from rich.markup import escape

    out = console()
    sheet = document["sheet"]
    out.print(f"[bold]{escape(sheet['name'])}[/] ({sheet['id']}, {document['kind']})")
    stated = sheet["sources"]
    for key, value in _rows(sheet):
        part = key.partition(".")[0]
        tags = stated.get(key) or stated.get(part) or ((sheet.get(part) or {}).get("sources", ()) if "." in key else ())
        out.print(f"  {key:<34} {escape(value)}" + (f"  [dim]\\[{', '.join(tags)}][/]" if tags else ""))
    if sheet.get("notes"):
        out.print(f"note: {escape(sheet['notes'].strip())}")
    if document["systems"]:
        out.print(f"systems: {', '.join(document['systems'])}")
    for tag, source in document["sources"].items():
        out.print(f"[dim]\\[{tag}] {escape(source['title'])}" + (f", {escape(source['url'])}" if source.get("url") else "") + "[/]")


def _rows(sheet: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (path, text) of every value but the ones printed elsewhere; None is "not known", an absent part is left out."""
    rows: list[tuple[str, str]] = []
    for key, value in sheet.items():
        if key in ("id", "name", "sources", "notes", "dense_tflops"):
            continue
        if isinstance(value, dict):
            rows += [(f"{key}.{name}", _text(item)) for name, item in value.items() if name != "sources" and item is not None]
        elif isinstance(value, list | tuple):
            rows += [(key, ", ".join(map(str, value)))] if value else []
        elif value is not None or key not in ("torus", "link", "intra_node_gb_per_s_per_direction"):
            rows.append((key, _text(value)))
    peaks = sheet.get("dense_tflops", {})
    return rows + [(f"dense_tflops.{name}", f"{_number(peak)} {'TOP/s' if name == 'int8' else 'TFLOP/s'}") for name, peak in peaks.items()]


def _text(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.5g}" if value < 1e5 else f"{value:,.0f}"
