"""Records as JSON lines in files and streams, compressed or not."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from advisor.errors import UsageError
from advisor.resources import open_without_waiting, written_whole

#: Longest line, or document of many lines, that an import reads: a compressed file of a few bytes can hold any length.
_LONGEST = 64 << 20


def write_lines(records: Iterable[Mapping[str, Any]], target: Path | IO[str]) -> dict[str, int]:
    """Write ``records`` as JSON lines to a file (compressed where its name ends in ``.gz``) or stream; return counts by record.

    A file appears under its name only when it is whole.
    """
    counts: dict[str, int] = {}
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
    if not isinstance(target, Path):
        _write(records, target, encode, counts)
        return counts
    try:
        with written_whole(target) as part, part.open("wb") as raw, _text_of(raw, compressed=target.suffix == ".gz") as file:
            _write(records, file, encode, counts)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
    return counts


def _text_of(raw: BinaryIO, *, compressed: bool) -> IO[str]:
    mode = "rt" if raw.readable() else "wt"
    return cast("IO[str]", gzip.open(raw, mode, encoding="utf-8") if compressed else io.TextIOWrapper(raw, encoding="utf-8"))


def _write(records: Iterable[Mapping[str, Any]], file: IO[str], encode: Any, counts: dict[str, int]) -> None:
    for record in records:
        file.write(encode(record) + "\n")
        counts[record["record"]] = counts.get(record["record"], 0) + 1


def read_lines(source: Path | IO[str], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, record) of JSON lines, or of the document of ``advisor bench --json``; raises UsageError where it is neither."""
    try:
        if isinstance(source, Path):
            with open_without_waiting(source) as raw, _text_of(raw, compressed=source.suffix == ".gz") as file:
                yield from _parse(file, name)
        else:
            yield from _parse(source, name)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read {name}: {reason}") from error


def _parse(file: IO[str], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    first = True
    for number, line in enumerate(iter(lambda: file.readline(_LONGEST + 1), ""), 1):
        if len(line) > _LONGEST:
            raise _too_long(f"{name} line {number}")
        if not line.strip():
            continue
        place = f"{name} line {number}"
        if first:
            first = False
            if not _is_json(line):
                # Not a record a line: the whole may be one document, printed over many lines.
                rest = file.read(_LONGEST + 1)
                if len(rest) > _LONGEST:
                    raise _too_long(name)
                yield from _document(line + rest, name)
                return
        yield from _records(_loads(line, place), place)
    if first:
        # What was meant to be piped in failed before it wrote anything: that nothing is new would hide it.
        raise UsageError(f"{name} is empty", "import takes what `advisor results export` or `advisor bench --json` writes", "NO-RECORDS")


def _too_long(place: str) -> UsageError:
    return UsageError(f"{place} is longer than {_LONGEST >> 20} Mi characters", "write one record a line", code="TOO-LARGE")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _document(text: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from _records(_loads(text, name), name)


def _loads(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        detail = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply or not a number"
        raise UsageError(
            f"{place}: not JSON ({detail})", "import takes what `advisor results export` or `advisor bench --json` writes"
        ) from error


def _records(value: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the records of one JSON value: a record itself, or a document with ``measurements``."""
    if not isinstance(value, dict):
        raise UsageError(f"{place}: a record is a JSON object")
    if "record" not in value and isinstance(value.get("measurements"), list):
        for index, item in enumerate(value["measurements"]):
            if not isinstance(item, dict):
                raise UsageError(f"{place}: measurements[{index}] is not an object")
            yield f"{place} measurements[{index}]", {"record": "measurement", **item}
        return
    yield place, {"record": "measurement", **value}
