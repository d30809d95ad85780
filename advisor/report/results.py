"""Results as tables for people, and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.report.console import console
from advisor.units import format_bytes, format_rate, format_seconds

_VALUE_COLUMNS = ("best", "median", "p10", "p90", "min", "max", "mean")


def render_measurements(document: Mapping[str, Any]) -> None:
    """Print measurements, the newest first."""
    rows = document["measurements"]
    more = " (there are more: raise --limit)" if document["truncated"] else ""
    print_lines(f"{len(rows)} measurement{'' if len(rows) == 1 else 's'}{more}" if rows else document["hint"])
    if rows:
        head = ("id", "benchmark", "backend", "device", "dtype", "what", "value", "95 % interval", "status", "origin", "when")
        render_table(head, [_measurement_cells(row) for row in rows])


def _measurement_cells(m: Mapping[str, Any]) -> tuple[str, ...]:
    interval = f"{value_text(m['low'], m)} .. {value_text(m['high'], m)}" if m["low"] is not None and m["high"] is not None else ""
    status = m["status"] if m["retracted"] is None else "retracted"
    return (
        m["id"][:13],
        m["benchmark"],
        m["backend"],
        m["device_name"] or m["device"],
        m["dtype"],
        what(m["params"]),
        value_text(m["value"], m),
        interval,
        status,
        m["origin"],
        (m["measured_at"] or "")[:16].replace("T", " "),
    )


def what(params: Mapping[str, Any], longest: int = 60) -> str:
    """Return the parameters in a few words: what was measured, without what other columns say."""
    passed = {"group", "status", "hardware", "hw_class", "precision", "dtype", "framework", "kind", "source", "mode", "model_name", "task"}
    model = [str(params["model"])] if "model" in params else []
    text = " ".join(model + [f"{name}={_short(value)}" for name, value in params.items() if name not in passed | {"model"}])
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _short(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, dict | list) else str(value)


def value_text(value: float | None, m: Mapping[str, Any]) -> str:
    """Write a value in the units of its metric as people read them; empty where there is none."""
    if value is None:
        return ""
    if m["metric"] == "seconds":
        return format_seconds(value)
    return format_rate(value, m["metric"] if m["metric"] in ("flops_per_s", "bytes_per_s") else m["unit"])


def render_groups(document: Mapping[str, Any]) -> None:
    """Print groups, the best first."""
    rows = document["rows"]
    if not rows:
        print_lines(document["hint"])
        return
    keys = [name for name in document["columns"] if name not in (*_VALUE_COLUMNS, "metric", "unit", "count", "best_id")]
    print_lines(f"{len(rows)} group{'' if len(rows) == 1 else 's'} of {sum(row['count'] for row in rows)} measurements, the best first")
    head = (*keys, "metric", "count", "best", "median", "p10", "p90", "best measurement")
    cells = [
        (
            *(str(row[key] if row[key] is not None else "-") for key in keys),
            row["metric"],
            str(row["count"]),
            *(value_text(row[name], row) for name in ("best", "median", "p10", "p90")),
            row["best_id"][:13],
        )
        for row in rows
    ]
    render_table(head, cells)


def render_rows(document: Mapping[str, Any]) -> None:
    """Print the rows of an SQL answer."""
    if not document["rows"] and document["hint"]:
        print_lines(document["hint"])
        return
    render_table(document["columns"], [["" if value is None else _cell(value) for value in row.values()] for row in document["rows"]])
    if document["truncated"]:
        print_lines("(there are more rows: raise --limit)")


def _cell(value: Any) -> str:
    return _short(value) if isinstance(value, dict | list) else str(value)


def render_list(document: Mapping[str, Any]) -> None:
    """Print what the database holds and its newest runs."""
    held = document["counts"]
    said = ", ".join(
        f"{held[name]:,} {name.replace('_', ' ')}" for name in ("measurements", "plan_trials", "recommendations", "machines", "runs")
    )
    print_lines(f"{document['database']}: {said}", document["hint"])
    if document["runs"]:
        head = ("run", "kind", "origin", "machine", "started", "finished", "measurements", "trials")
        render_table(head, [_run_cells(run) for run in document["runs"]])


def _run_cells(run: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        run["id"],
        run["kind"],
        run["origin"],
        (run["machine"] or "")[:12],
        run["started_at"][:19].replace("T", " "),
        run["finished_at"][11:19] if run["finished_at"] else "not finished",
        str(run["measurements"]),
        str(run["trials"]),
    )


def render_record(document: Mapping[str, Any]) -> None:
    """Print one record, a field a line; what is nested as JSON."""
    record = document["record"]
    print_lines(f"{document['kind']} {record['id']}")
    width = max(len(name) for name in record)
    for name, value in record.items():
        if name == "id" or value is None:
            continue
        text = json.dumps(value, ensure_ascii=False, indent=1) if isinstance(value, dict | list) else str(value)
        if name in ("value", "low", "high", "run_low", "run_high") and "metric" in record:
            text = f"{value_text(value, record)}  ({value!r} {record['unit']})"
        print_lines(f"  {name:<{width}}  {text}")


def render_import(document: Mapping[str, Any]) -> None:
    """Print what an import or merge did."""
    new, known = document["new"], document["known"]
    said = ", ".join(f"{number} {kind}{'' if number == 1 else 's'}" for kind, number in new.items() if number)
    print_lines(f"stored {said}" if said else "nothing new")
    if any(known.values()):
        print_lines(f"{sum(known.values())} records were there already")
    for identifier in document["conflicts"][:20]:
        print_lines(f"conflict: {identifier} is here with other content; the one here was kept")
    if len(document["conflicts"]) > 20:
        print_lines(f"… and {len(document['conflicts']) - 20} more conflicts")


def render_pushed(document: Mapping[str, Any]) -> None:
    """Print what a push did."""
    sent, withdrawn, refused = document["sent"], document["withdrawn"], document["refused"]
    if not sent and not withdrawn and not refused:
        print_lines(f"{document['target']} has everything already")
        return
    said = [f"{sent:,} record{'' if sent == 1 else 's'} sent ({document['new']:,} new there)"] if sent else []
    said += [f"{withdrawn:,} withdrawn"] if withdrawn else []
    print_lines(f"{document['target']}: {', '.join(said) or 'nothing sent'}")
    for item in refused[:20]:
        print_lines(f"refused: {item['id']}: {item['why']}")
    if len(refused) > 20:
        print_lines(f"… and {len(refused) - 20} more refused")


def render_export(document: Mapping[str, Any]) -> None:
    """Say on standard error what was written (standard output may be the export itself)."""
    said = ", ".join(f"{number} {kind}{'' if number == 1 else 's'}" for kind, number in document["written"].items())
    console(stderr=True).print(f"wrote {said or 'nothing'} to {document['file']}", markup=False)


def render_retracted(document: Mapping[str, Any]) -> None:
    """Say what was withdrawn."""
    ids = document["retracted"]
    print_lines(f"withdrew {len(ids)} measurement{'' if len(ids) == 1 else 's or trials'}: {document['reason']}")


def render_status(document: Mapping[str, Any]) -> None:
    """Print where the database is, its state and what it holds."""
    print_lines(f"{document['database']}: {document['state']}", document["hint"])
    if document["state"] == "missing":
        return
    size, kind = document["size_bytes"], document["file_system"]
    product = f"{document['product']} {document['version']}"
    place = "" if size is None else f", {format_bytes(size)}" + (f" on {kind}" if kind else "")
    print_lines(f"  {product}{place}, schema {document['revision']} (this program: {document['expected_revision']})")
    if document["network_file_system"]:
        print_lines("  on a network file system: SQLite's write-ahead log is off; for many hosts use PostgreSQL")
    for name, number in document.get("counts", {}).items():
        print_lines(f"  {name:<22} {number:>9,}   {', '.join(document['tables'][name])}")


def render_upgraded(document: Mapping[str, Any]) -> None:
    """Say what an upgrade did."""
    before, after = document["from_revision"], document["revision"]
    done = "created" if before is None else "is up to date" if before == after else f"upgraded from schema {before}"
    print_lines(f"{document['database']}: {done} (schema {after})")


def render_seeded(document: Mapping[str, Any]) -> None:
    """Say what seeding added."""
    tables = document["tables"]
    added = sum(table["added"] for table in tables.values())
    print_lines(
        f"{document['database']}: {added:,} published rows added" if added else f"{document['database']}: the published rows are all there"
    )
    render_table(("table", "rows", "added"), [(name, f"{table['rows']:,}", f"{table['added']:,}") for name, table in tables.items()])


def render_backup(document: Mapping[str, Any]) -> None:
    """Say where the copy is."""
    print_lines(f"copied {document['database']} to {document['file']} ({format_bytes(document['size_bytes'])})")


def print_lines(*lines: str | None) -> None:
    """Print lines as they stand."""
    for line in lines:
        if line is not None:
            console().print(line, markup=False)


def render_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print an aligned table; columns that are empty in every row are left out."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    used = [index for index in range(len(head)) if not rows or any(row[index] for row in rows)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for index in used:
        table.add_column(Text(head[index]), no_wrap=True, overflow="fold")
    for row in rows:
        table.add_row(*(Text(row[index]) for index in used))
    out = console()
    if not out.is_terminal:
        # A pipe has no width: no cell is cut.
        out.width = 10_000
    out.print(table)


def to_csv(document: Mapping[str, Any]) -> str:
    """Return measurements or rows as CSV with a header; what is nested stands as JSON text, unknown is empty."""
    rows = document.get("rows", document.get("measurements", []))
    names = document.get("columns") or (list(rows[0]) if rows else [])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if row[name] is None else _cell(row[name]) for name in names] for row in rows])
    return text.getvalue()
