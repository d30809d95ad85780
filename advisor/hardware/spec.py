"""Parse what people write after ``--hardware``.

    SPEC = TERM(+TERM)*      TERM = [N x] [M x] NAME [@SYSTEM]      or a TPU slice such as v5p-128

``Nx`` alone counts logical devices, filled into nodes of the device's default system; ``NxMx`` is nodes times devices of a node;
``N x`` the name of a system is N nodes of it. ``local`` is not handled here: it needs a probe.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from advisor.errors import UsageError
from advisor.hardware import load
from advisor.hardware.records import HardwareProfile, System

MAX_DEVICES = 1_000_000
MAX_TERMS = 64
MAX_LENGTH = 4096
#: Devices of a node where no system sheet says it: the most that usual servers hold.
_USUAL_NODE = 8

_COUNT = re.compile(r"\s*([-+]?[\d.,_]+(?:e[-+]?\d+)?)\s*[x×*]\s*(?=\S)", re.IGNORECASE)
_SLICE = re.compile(r"(?:tpu[-\s_]?)?(v\d+[a-z]*)-(\d+)", re.IGNORECASE)
#: TensorCores that one chip adds to the number in a slice's name (Cloud TPU documentation): v5e and v6e names count chips.
_SLICES = {
    "v2": ("tpu-v2", 2),
    "v3": ("tpu-v3", 2),
    "v4": ("tpu-v4", 2),
    "v5p": ("tpu-v5p", 2),
    "v5e": ("tpu-v5e", 1),
    "v5litepod": ("tpu-v5e", 1),
    "v6e": ("tpu-v6e", 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """So many devices of one product. ``devices`` are logical devices over all nodes; the last node may be partly filled.

    ``label`` is the shortest text that parses to this term again.
    """

    profile: HardwareProfile
    nodes: int
    devices_per_node: int
    devices: int
    system: System | None
    label: str


def parse_spec(text: str) -> tuple[Term, ...]:
    """Return the terms of ``text``; UsageError or UnknownName, one line each, for anything else."""
    if not text.strip():
        raise UsageError("no hardware given", "write for example 8xa100-sxm4-80gb, or local")
    if len(text) > MAX_LENGTH:
        raise UsageError(f"the hardware is longer than {MAX_LENGTH} characters")
    pieces = text.split("+")
    if len(pieces) > MAX_TERMS:
        raise UsageError(f"more than {MAX_TERMS} kinds of hardware joined by +")
    terms: list[Term] = []
    start = 0
    while start < len(pieces):
        # A product's name may itself hold a plus (Xeon Platinum 8480+): the longest join that names something is meant.
        for end in range(len(pieces), start, -1):
            joined = "+".join(pieces[start:end])
            if end == start + 1 or _names_something(joined):
                terms.append(parse_term(joined))
                start = end
                break
    total = sum(term.devices for term in terms)
    if total > MAX_DEVICES:
        raise UsageError(f"{total:,} devices are more than {MAX_DEVICES:,}")
    return tuple(terms)


def parse_term(text: str) -> Term:
    """Return one TERM of the grammar."""
    counts, name, system_name = _split(text)
    if not name:
        raise UsageError(f"no hardware is named in {text.strip()!r}", "write for example 8xa100-sxm4-80gb")
    if system_name is None:
        node = load.find_system(name) if load.find_profile(name) is None else None
        if node is not None:
            return _nodes_of(text, counts, node)
        chips = _slice(name)
        if chips is not None:
            if counts not in ((), (1,)):
                raise UsageError(
                    f"{text.strip()!r}: a TPU slice is one whole and takes no count", f"write {counts[0] * chips[1]}x{chips[0]}"
                )
            return _filled(load.profile(chips[0]), chips[1], None)
    profile = load.profile(name)
    system = None if system_name is None else _system(system_name, profile)
    if len(counts) == 2:
        return _grid(profile, counts[0], counts[1], system)
    return _filled(profile, counts[0] if counts else 1, system)


def _names_something(text: str) -> bool:
    try:
        _, name, _ = _split(text)
    except UsageError:
        return False
    return load.find_profile(name) is not None or load.find_system(name) is not None


def _split(text: str) -> tuple[tuple[int, ...], str, str | None]:
    """Return the counts in front, the name, and the system behind ``@`` (a CPU's name may hold an @ of its own)."""
    rest = text.strip()
    counts: list[int] = []
    while len(counts) < 2 and load.find_profile(rest) is None:
        match = _COUNT.match(rest)
        if match is None:
            break
        counts.append(_count(match[1], text))
        rest = rest[match.end() :].strip()
    if load.find_profile(rest) is None and "@" in rest:
        name, _, system = rest.rpartition("@")
        return tuple(counts), name.strip(), system.strip()
    return tuple(counts), rest, None


def _count(digits: str, text: str) -> int:
    if not digits.isascii() or not digits.isdecimal():
        raise UsageError(f"{digits!r} in {text.strip()!r} is not a count", f"a whole number from 1 to {MAX_DEVICES}")
    value = int(digits) if len(digits) <= 12 else MAX_DEVICES + 1
    if value < 1:
        raise UsageError(f"{text.strip()!r} asks for no devices", "a count is at least 1")
    if value > MAX_DEVICES:
        raise UsageError(f"{text.strip()!r} asks for more than {MAX_DEVICES:,} devices")
    return value


def _system(name: str, profile: HardwareProfile) -> System:
    system = load.system(name)
    if system.device != profile.id:
        raise UsageError(f"system {system.id} holds {system.device}, not {profile.id}", "`advisor hardware list --systems` shows them")
    return system


def _default_system(profile: HardwareProfile) -> System | None:
    return load.all_systems().get(profile.default_system) if profile.default_system else None


def _filled(profile: HardwareProfile, devices: int, named: System | None) -> Term:
    """Fill ``devices`` into as few nodes as hold them, evenly where that is possible."""
    system = named or _default_system(profile)
    room = system.devices_per_node if system else _USUAL_NODE
    nodes = -(-devices // room)
    each = devices // nodes if devices % nodes == 0 else room
    suffix = f"@{named.id}" if named is not None and named != _default_system(profile) else ""
    return Term(
        profile=profile,
        nodes=nodes,
        devices_per_node=each,
        devices=devices,
        system=system,
        label=f"{devices}x{profile.id}{suffix}",
    )


def _grid(profile: HardwareProfile, nodes: int, each: int, named: System | None) -> Term:
    """Return ``nodes`` nodes of ``each`` devices; a node takes no more devices than its system holds."""
    if nodes * each > MAX_DEVICES:
        raise UsageError(f"{nodes}x{each}x{profile.id} asks for more than {MAX_DEVICES:,} devices")
    system = named or _default_system(profile)
    if system is not None and each > system.devices_per_node:
        raise UsageError(f"a node of {system.id} holds {system.devices_per_node} devices, not {each}", "name another system with @SYSTEM")
    plain = _filled(profile, nodes * each, named)
    if (plain.nodes, plain.devices_per_node) == (nodes, each):
        return plain
    suffix = plain.label.partition("@")[2]
    return Term(
        profile=profile,
        nodes=nodes,
        devices_per_node=each,
        devices=nodes * each,
        system=system,
        label=f"{nodes}x{each}x{profile.id}" + (f"@{suffix}" if suffix else ""),
    )


def _nodes_of(text: str, counts: tuple[int, ...], system: System) -> Term:
    if len(counts) == 2:
        raise UsageError(f"{text.strip()!r}: {system.id} is a system", f"write {counts[0]}x{counts[1]}x{system.device}@{system.id}")
    nodes = counts[0] if counts else 1
    return _grid(load.all_profiles()[system.device], nodes, system.devices_per_node, system)


def _slice(name: str) -> tuple[str, int] | None:
    """Return the profile id and the number of chips of a TPU slice's name, or None if it is not one."""
    match = _SLICE.fullmatch(name.strip())
    if match is None or match[1].lower() not in _SLICES:
        return None
    identity, per_chip = _SLICES[match[1].lower()]
    count = _count(match[2], name)
    if count % per_chip:
        raise UsageError(
            f"{name!r}: the number counts TensorCores, of which a chip has {per_chip}", f"write {name[: -len(match[2])]}{count + 1}"
        )
    return identity, count // per_chip
