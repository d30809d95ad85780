"""Load the sheets under ``hardware_profiles/`` and the user's own, strictly, and find them by name.

Parsing a hundred YAML files takes longer than a whole recommendation, so the parsed sheets are kept in one file in the user's data
folder. It holds the path, size and modification time of every sheet it was made from (and of the record definitions): when any of
them differs, the sheets are read again. A cache that cannot be read or written only costs time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import msgspec

from advisor.errors import UnknownName, UsageError
from advisor.hardware import records
from advisor.hardware.names import keys_of, lookup_keys
from advisor.hardware.records import HardwareProfile, Links, Source, System
from advisor.hardware.sheets import read_sheet, sheet_files
from advisor.resources import data_dir, user_data_dir, user_path
from advisor.yamlio import read_yaml

#: Folders with sheets of the user's own, checked before the shipped ones; separated as PATH is.
PROFILE_PATH = "ADVISOR_PROFILE_PATH"
#: How long a loaded catalog is trusted before the files' times are looked at again.
_RECHECK_S = 1.0

T = TypeVar("T")
_Stamp = tuple[tuple[str, int, int], ...]


class _Cached(msgspec.Struct):
    stamp: _Stamp
    devices: list[HardwareProfile]
    systems: list[System]
    links: Links
    sources: dict[str, Source]


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every sheet known, by id, and every name that leads to one."""

    devices: Mapping[str, HardwareProfile]
    systems: Mapping[str, System]
    links: Links
    sources: Mapping[str, Source]
    device_names: Mapping[str, str]
    """Normalised name, alias or short name to a device id."""
    tool_names: Mapping[str, tuple[str, ...]]
    """Normalised id, name or alias, as tools print them, to the ids of all devices that go by it."""
    system_names: Mapping[str, str]


@dataclass(slots=True)
class _Held:
    stamp: _Stamp
    catalog: Catalog
    checked: float


_held: dict[tuple[Path, ...], _Held] = {}


def all_profiles() -> Mapping[str, HardwareProfile]:
    """Return every device sheet by canonical id; a user's sheet replaces a shipped one of the same id."""
    return catalog().devices


def all_systems() -> Mapping[str, System]:
    """Return every system sheet by canonical id."""
    return catalog().systems


def profile(name: str) -> HardwareProfile:
    """Return the device sheet called ``name`` (id, tool's name, or short name; case, spaces and brand words do not matter).

    UnknownName, with near ones, if there is none.
    """
    found = find_profile(name)
    if found is None:
        raise UnknownName("hardware", name, catalog().device_names, "advisor hardware list")
    return found


def find_profile(name: str) -> HardwareProfile | None:
    """Return the device sheet called ``name``, or None."""
    known = catalog()
    return next((known.devices[known.device_names[key]] for key in lookup_keys(name) if key in known.device_names), None)


def find_system(name: str) -> System | None:
    """Return the system sheet called ``name``, or None."""
    known = catalog()
    return next((known.systems[known.system_names[key]] for key in lookup_keys(name) if key in known.system_names), None)


def system(name: str) -> System:
    """Return the system sheet called ``name``; UnknownName, with near ones, if there is none."""
    found = find_system(name)
    if found is None:
        raise UnknownName("system", name, catalog().system_names, "advisor hardware list --systems")
    return found


def catalog() -> Catalog:
    """Return every sheet; files are looked at again at most once a second, and read again only when one has changed."""
    folders = (*_user_folders(), data_dir("hardware_profiles"))
    held = _held.get(folders)
    now = time.monotonic()
    if held is not None and now - held.checked < _RECHECK_S:
        return held.catalog
    stamp = _stamp(folders)
    if held is None or held.stamp != stamp:
        cached = _read_cache(folders, stamp)
        if cached is None:
            cached = _read_sheets(folders, stamp)
            _write_cache(folders, cached)
        held = _Held(stamp, _index(cached), now)
        _held[folders] = held
    held.checked = now
    return held.catalog


def forget() -> None:
    """Drop what is held in memory: the next call looks at the files again."""
    _held.clear()


def _user_folders() -> tuple[Path, ...]:
    folders = tuple(user_path(part) for part in os.environ.get(PROFILE_PATH, "").split(os.pathsep) if part.strip())
    for folder in folders:
        if not _is_folder(folder):
            raise UsageError(f"{PROFILE_PATH} names {folder}, which is not a folder", code="BAD-PROFILE-PATH")
    return folders


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # not to be looked into, or no name at all
        return False


def _stamp(folders: tuple[Path, ...]) -> _Stamp:
    files = [Path(records.__file__)]
    for folder in folders:
        files += sheet_files(folder)
        files += [folder / name for name in ("sources.yaml", "links.yaml") if (folder / name).is_file()]
    try:
        stats = [(str(path), os.stat(path)) for path in files]
    except OSError as error:
        raise UsageError(f"cannot read {error.filename}: {error.strerror}", code="CANNOT-READ") from error
    return tuple((path, stat.st_size, stat.st_mtime_ns) for path, stat in stats)


def _read_sheets(folders: tuple[Path, ...], stamp: _Stamp) -> _Cached:
    devices: dict[str, HardwareProfile] = {}
    systems: dict[str, System] = {}
    sources: dict[str, Source] = {}
    for folder in folders:
        here: dict[str, Path] = {}
        for path in sheet_files(folder):
            sheet = read_sheet(path)
            if sheet.id in here:
                raise UsageError(f"{path}: id: {sheet.id!r} is also the id of {here[sheet.id]}", code="BAD-SHEET")
            here[sheet.id] = path
            # Folders are in order of precedence: the first sheet of an id stays.
            if isinstance(sheet, System):
                systems.setdefault(sheet.id, sheet)
            else:
                devices.setdefault(sheet.id, sheet)
        if (folder / "sources.yaml").is_file():
            sources = {**_convert(folder / "sources.yaml", dict[str, Source]), **sources}
    for item in systems.values():
        if item.device not in devices:
            raise UsageError(f"system sheet {item.id}: device: no sheet has the id {item.device!r}", code="BAD-SHEET")
    links = _convert(folders[-1] / "links.yaml", Links)
    return _Cached(stamp, list(devices.values()), list(systems.values()), links, sources)


def _convert(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.convert(read_yaml(path), kind, strict=True)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}", code="BAD-SHEET") from error


def _index(cached: _Cached) -> Catalog:
    devices = {sheet.id: sheet for sheet in sorted(cached.devices, key=lambda s: s.id)}
    systems = {sheet.id: sheet for sheet in sorted(cached.systems, key=lambda s: s.id)}
    return Catalog(
        MappingProxyType(devices),
        MappingProxyType(systems),
        cached.links,
        MappingProxyType(cached.sources),
        MappingProxyType(keys_of((sheet.id, (sheet.id, sheet.name, *sheet.aliases, *sheet.short_names)) for sheet in devices.values())),
        MappingProxyType(_tool_names(devices)),
        MappingProxyType(keys_of((sheet.id, (sheet.id, sheet.name, *sheet.aliases)) for sheet in systems.values())),
    )


def _tool_names(devices: Mapping[str, HardwareProfile]) -> dict[str, tuple[str, ...]]:
    known: dict[str, tuple[str, ...]] = {}
    for sheet in devices.values():
        for key in {key for name in (sheet.id, sheet.name, *sheet.aliases) for key in lookup_keys(name)}:
            known[key] = (*known.get(key, ()), sheet.id)
    return known


def _cache_path(folders: tuple[Path, ...]) -> Path:
    digest = hashlib.sha256("\0".join(map(str, folders)).encode()).hexdigest()[:16]
    return user_data_dir() / "cache" / f"hardware-{digest}.msgpack"


def _read_cache(folders: tuple[Path, ...], stamp: _Stamp) -> _Cached | None:
    try:
        cached = msgspec.msgpack.decode(_cache_path(folders).read_bytes(), type=_Cached)
    except (OSError, msgspec.DecodeError):
        return None
    return cached if cached.stamp == stamp else None


def _write_cache(folders: tuple[Path, ...], cached: _Cached) -> None:
    path = _cache_path(folders)
    # A read-only home is no reason to fail: the sheets are simply parsed again next time.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
            file.write(msgspec.msgpack.encode(cached))
        os.replace(file.name, path)
