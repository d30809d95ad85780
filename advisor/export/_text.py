"""What every written file shares: the header comment, and quoting of names that came from outside."""

from __future__ import annotations

import json
import pprint
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.errors import UsageError
from advisor.export._spec import Answer, Files
from advisor.yamlio import parse_yaml

_TEMPLATES = Path(__file__).parent / "templates"


def one_line(text: str) -> str:
    """Return ``text`` without anything that could end a comment or move a cursor."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def header(answer: Answer, targets: str, *notes: str, mark: str = "#") -> str:
    """Return the comment lines that begin a file: what it is for, the tool it targets, the plan, and what to know of it."""
    plan = answer.plan
    degrees = ", ".join(f"{name} {getattr(plan, name)}" for name in ("dp", "tp", "pp", "vpp", "cp", "ep") if getattr(plan, name) > 1)
    lines = [
        one_line(answer.title),
        f"For {targets}. Priced for {plan.framework} {plan.execution}, {plan.precision}{_quantized(answer)}; {degrees or 'one device'}.",
        *map(one_line, notes),
    ]
    return "".join(f"{mark} {line}\n" for line in lines)


def _quantized(answer: Answer) -> str:
    return "" if answer.plan.quantization == "none" else f" with {answer.plan.quantization} weights"


def template(name: str) -> str:
    """Return the text of a template that ships with the exporters."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def literal(name: str, value: Any) -> str:
    """Return ``NAME = value`` as Python source, one entry a line."""
    return f"{name} = {pprint.pformat(value, indent=1, width=100, sort_dicts=False)}\n"


def command(words: Sequence[str], *, per_line: int = 1, indent: str = "  ") -> str:
    """Return a shell command, each word quoted, folded over lines; a ``Raw`` word is kept as it is."""
    quoted = [word if isinstance(word, Raw) else shlex.quote(word) for word in words]
    lines = [quoted[0], *(" ".join(quoted[i : i + per_line]) for i in range(1, len(quoted), per_line))]
    return f" \\\n{indent}".join(lines) + "\n"


class Raw(str):
    """A shell word that is already quoted, such as ``"${MASTER_ADDR:-localhost}:29500"``."""

    __slots__ = ()


def script(answer: Answer, targets: str, body: str, *notes: str) -> str:
    """Return a bash script: header, strict mode, its own folder as the working directory, then ``body``."""
    return f'#!/usr/bin/env bash\n{header(answer, targets, *notes)}set -euo pipefail\ncd "$(dirname "$0")"\n\n{body}'


def shell_words(text: str, program: str) -> list[str] | None:
    """Return the words of the command in ``text`` that runs ``program``, or None; comments and continuations are read as bash does.

    Quotes that do not close raise ValueError.
    """
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        words = shlex.split(stripped, comments=True)
        if program in words:
            return words[words.index(program) :]
    return None


def options(words: Sequence[str]) -> dict[str, str | None]:
    """Return ``--name value`` and ``--name=value`` of a command line as a mapping; a flag without a value maps to None."""
    found: dict[str, str | None] = {}
    name: str | None = None
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            found[name] = value if equals else None
        elif name is not None and found[name] is None:
            found[name] = word
        elif name is not None:
            found[name] = f"{found[name]} {word}"
    return found


def slug(text: str, *, limit: int = 50) -> str:
    """Return a name that Kubernetes, Python module names apart, and file systems all accept: lower case letters, digits, dashes."""
    short = re.sub(r"[^a-z0-9]+", "-", text.rsplit("/", 1)[-1].lower()).strip("-")[:limit].strip("-")
    return short if short and short[0].isalpha() else f"model-{short}".strip("-")


def json_text(value: Mapping[str, Any]) -> str:
    """Return indented JSON with a line end."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def yaml_text(value: Any) -> str:
    """Return YAML in the order given; strings that could be read as something else are quoted."""
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000)
    return text


def read_yaml_mapping(files: Files, name: str) -> tuple[dict[str, Any], str | None]:
    """Return the mapping that a written YAML file holds, or an empty one and what is wrong with it."""
    try:
        document = parse_yaml(files[name], name)
    except UsageError as error:
        return {}, error.message
    return (document, None) if isinstance(document, dict) else ({}, f"{name} is not a mapping")
