"""One tree for both long forms of nvidia-smi: the XML of ``-q -x`` and the text of ``-q``.

Names are lower case with underscores (``FB Memory Usage`` is ``fb_memory_usage``), so that one reader serves every version:
a name that moved is looked up under its old and new places, an unknown one is ignored.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field

from advisor.probe.accelerators._text import value

MAX_DEPTH = 40


@dataclass(slots=True)
class Tree:
    """A named node with text or children. ``label`` is an XML ``id`` or what stands after ``GPU`` in a heading."""

    name: str
    text: str | None = None
    label: str | None = None
    children: list[Tree] = field(default_factory=list)

    def all(self, path: str) -> list[Tree]:
        """Return every node at ``a/b/c`` below this one."""
        nodes = [self]
        for part in path.split("/"):
            nodes = [child for node in nodes for child in node.children if child.name == part]
        return nodes

    def get(self, *paths: str) -> str | None:
        """Return the text at the first path that says something (``N/A`` and the like say nothing)."""
        for path in paths:
            for node in self.all(path):
                found = value(node.text)
                if found is not None:
                    return found
        return None

    def raw(self, *paths: str) -> str | None:
        """Return the text at the first path that is there, ``N/A`` and all."""
        for path in paths:
            for node in self.all(path):
                if node.text:
                    return node.text
        return None


def from_xml(text: str) -> Tree | None:
    """Read ``nvidia-smi -q -x``; what was complete before a damaged or cut-off place counts. None if it is not such a document."""
    start = text.find("<nvidia_smi_log")
    if start < 0:
        return None
    # The document is fed without its DOCTYPE: no entity is declared, so none can be expanded.
    parser = ET.XMLPullParser(events=("start",))
    root: ET.Element | None = None
    try:
        parser.feed(text[start:])
        parser.close()
    except (ET.ParseError, ValueError):
        pass  # a truncated document: the elements read so far are in the tree
    try:
        for _, element in parser.read_events():
            root = element
            break
    except (ET.ParseError, ValueError):
        return None
    return _convert(root, 0) if root is not None else None


def _convert(element: ET.Element, depth: int) -> Tree:
    node = Tree(_name(element.tag), (element.text or "").strip() or None, element.get("id"))
    if depth < MAX_DEPTH:
        node.children = [_convert(child, depth + 1) for child in element if child.tag != "supported_clocks"]
    return node


_GPU = re.compile(r"^(?:GPU|gpu)\s+([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]|N/A|\d+|Unknown)\s*$")


def from_text(text: str) -> Tree | None:
    """Read ``nvidia-smi -q``: nesting by indentation, ``Key : value`` or a heading. None if no GPU heading and no key is there."""
    root = Tree("nvidia_smi_log")
    stack: list[tuple[int, Tree]] = [(-1, root)]
    for raw in text.splitlines():
        line = raw.replace("\t", "    ").rstrip()
        words = line.strip()
        if not words or set(words) <= {"=", "-"} or "NVSMI LOG" in words:
            continue
        indent = len(line) - len(line.lstrip())
        heading = _GPU.match(words)
        key, separator, rest = words.partition(" : ")
        if not separator and words.endswith(" :"):
            key, separator, rest = words[:-2], ":", ""
        if heading:
            node = Tree("gpu", label=heading.group(1))
            indent = 0
        elif separator:
            node = Tree(_name(key), rest.strip() or None)
        else:
            node = Tree(_name(words))
        while len(stack) > 1 and stack[-1][0] >= indent:
            stack.pop()
        stack[-1][1].children.append(node)
        if len(stack) < MAX_DEPTH:
            stack.append((indent, node))
    return root if root.children else None


def _name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.strip().lower()).strip("_")
