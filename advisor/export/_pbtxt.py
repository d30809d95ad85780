"""Protobuf text format, as Triton's config.pbtxt uses it: written, read, and checked against message types kept as data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = list[tuple[str, Any]]
"""Fields in order; a repeated field stands several times. A value is a Message, a list of scalars, an Enum, or a scalar."""


class Enum(str):
    """A bare word: the name of an enumeration's value."""

    __slots__ = ()


class PbtxtError(ValueError):
    """The text is not in the format, or a field is not one of its message's."""


def dump(message: Message, indent: str = "") -> str:
    """Return the text of ``message``."""
    return "".join(_field(name, value, indent) for name, value in message)


def _field(name: str, value: Any, indent: str) -> str:
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return f"{indent}{name} {{\n{dump(value, indent + '  ')}{indent}}}\n"
    if isinstance(value, list):
        return f"{indent}{name}: [ {', '.join(_scalar(v) for v in value)} ]\n"
    return f"{indent}{name}: {_scalar(value)}\n"


def _scalar(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=True) if isinstance(value, str) else str(value)


_WORD = re.compile(
    r"""\s+|\#[^\n]*|(?P<word>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_][\w.]*|-?[\d.]+(?:[eE][-+]?\d+)?|[{}\[\]:,;<>])"""
)


@dataclass
class _Reader:
    words: Sequence[tuple[str, int]]
    at: int = 0

    def peek(self) -> str | None:
        return self.words[self.at][0] if self.at < len(self.words) else None

    def take(self, wanted: str | None = None) -> str:
        word = self.peek()
        if word is None or (wanted is not None and word != wanted):
            line = self.words[min(self.at, len(self.words) - 1)][1] if self.words else 1
            raise PbtxtError(f"line {line}: {wanted or 'a value'} expected, not {word if word is not None else 'the end'}")
        self.at += 1
        return word


def parse(text: str) -> Message:
    """Return the fields of ``text``; PbtxtError with the line if it is not in the format."""
    words, at = [], 0
    while at < len(text):
        match = _WORD.match(text, at)
        if match is None:
            raise PbtxtError(f"line {text.count(chr(10), 0, at) + 1}: unexpected {text[at]!r}")
        if match["word"] is not None:
            words.append((match["word"], text.count("\n", 0, at) + 1))
        at = match.end()
    reader = _Reader(words)
    return _message(reader, None, 0)


def _message(reader: _Reader, closing: str | None, depth: int) -> Message:
    if depth > 32:
        raise PbtxtError("messages are nested too deeply")
    found: Message = []
    while reader.peek() != closing:
        name = reader.take()
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise PbtxtError(f"line {reader.words[reader.at - 1][1]}: a field name expected, not {name}")
        found += [(name, value) for value in _values(reader, depth)]
        if reader.peek() in (",", ";"):
            reader.take()
    if closing is not None:
        reader.take(closing)
    return found


def _values(reader: _Reader, depth: int) -> list[Any]:
    if reader.peek() == ":":
        reader.take()
    elif reader.peek() not in ("{", "[", "<"):
        reader.take(":")
    if reader.peek() != "[":
        return [_value(reader, depth)]
    reader.take()
    found: list[Any] = []
    while reader.peek() != "]":
        found.append(_value(reader, depth))
        if reader.peek() != "]":
            reader.take(",")
    reader.take()
    return found


def _value(reader: _Reader, depth: int) -> Any:
    word = reader.take()
    if word in ("{", "<"):
        return _message(reader, "}" if word == "{" else ">", depth + 1)
    if word[0] in "\"'":
        return json.loads(f'"{word[1:-1]}"') if word[0] == '"' else word[1:-1]
    if word in ("true", "false"):
        return word == "true"
    if re.fullmatch(r"[A-Za-z_][\w.]*", word):
        return Enum(word)
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError as error:
        raise PbtxtError(f"{word!r} is no value") from error


def problems(message: Message, types: Mapping[str, Mapping[str, str]], kind: str, where: str = "") -> list[str]:
    """Return what ``message`` has that its type ``kind`` has not; ``types`` maps a message to its fields' types."""
    found = []
    seen: set[str] = set()
    for name, value in message:
        declared = types[kind].get(name)
        path = f"{where}{name}"
        if declared is None:
            found.append(f"{kind} has no field {path}")
            continue
        single = declared.removesuffix("[]")
        if single == declared and name in seen:
            found.append(f"{path} is given twice")
        seen.add(name)
        if single in types:
            found += problems(value, types, single, f"{path}.") if isinstance(value, list) else [f"{path} is a message, not {value!r}"]
        elif not _is(single, value):
            found.append(f"{path} must be {single}, not {value!r}")
    return found


def _is(kind: str, value: Any) -> bool:
    if kind.startswith("enum "):
        return isinstance(value, Enum) and str(value) in kind.split()[1:]
    if kind == "string":
        return isinstance(value, str) and not isinstance(value, Enum)
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "any":
        return True
    return isinstance(value, int) and not isinstance(value, bool) and (kind != "uint" or value >= 0)
