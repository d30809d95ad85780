"""Measurements as arrays: the columns of a benchmark's chunks, without what the filters leave out. Needs numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from advisor.results.columns import NO_UUID, is_uuid, microseconds
from advisor.results.filters import LISTED, Filters, squash
from advisor.results.schema import ColumnChunk, ColumnCode, Device, Machine, Retraction, Run
from advisor.results.terms import beginning, device_ids, of_machine

Array = np.ndarray[Any, Any]
#: The numbers that each packed column holds; an id is two of them.
ELEMENTS = {
    "ids": ">u8",
    "series": ">u8",
    "moments": "<i8",
    "readings": "<f8",
    "devices": "<u4",
    "runs": "<u4",
    "whats": "<u4",
    "cases": "<u4",
}
_NO_UUID = int.from_bytes(NO_UUID[:8], "big")


@dataclass(slots=True)
class Frame:
    """Arrays of equal length, one a column that was asked for, and what the codes in them stand for."""

    columns: dict[str, Array]
    whats: dict[int, dict[str, Any]]
    connection: Connection
    known: dict[str, Any] = field(default_factory=dict)
    """What was looked up already, for all frames that are parts of one."""

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def where(self, mask: Array) -> Frame:
        """Return the measurements that a mask, or their places, say."""
        return Frame({name: values[mask] for name, values in self.columns.items()}, self.whats, self.connection, self.known)

    def id_of(self, index: int) -> str:
        """Return the id of the measurement at ``index``."""
        high, low = (int(word) for word in self["ids"][index])
        if high == _NO_UUID:
            code = low & 0xFFFFFFFF
            return str(self.connection.execute(sa.select(ColumnCode.key).where(ColumnCode.code == code)).scalar())
        text = f"{high:016x}{low:016x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def table(self, column: str, label: Callable[[Any], Any], rows: dict[int, Any]) -> tuple[Array, list[Any]]:
        """Return, for each measurement, the place of ``label(row)`` in the list that is returned too; ``rows`` are by the column's code."""
        places: dict[Any, int] = {}
        of_code = np.zeros(max(rows, default=0) + 1, dtype=np.int64)
        for code, row in rows.items():
            of_code[code] = places.setdefault(label(row), len(places))
        return of_code[self[column]], list(places)

    def devices(self) -> dict[int, Any]:
        """Return the devices by their code."""
        if "devices" not in self.known:
            query = sa.select(ColumnCode.code, *Device.__table__.columns).join(Device, Device.id == ColumnCode.key)
            found = self.connection.execute(query.where(ColumnCode.kind == "device"))
            self.known["devices"] = {row.code: row for row in found}
        devices: dict[int, Any] = self.known["devices"]
        return devices

    def machines(self) -> dict[int, str | None]:
        """Return the fingerprint of the machine of each run, by the run's code."""
        query = (
            sa.select(ColumnCode.code, Machine.fingerprint)
            .join(Run, Run.id == ColumnCode.key)
            .outerjoin(Machine, Machine.id == Run.machine_id)
            .where(ColumnCode.kind == "run")
        )
        return {row.code: row.fingerprint for row in self.connection.execute(query)}

    def cases(self, codes: Sequence[int] | None = None) -> dict[int, dict[str, Any]]:
        """Return the parameters by the code of a case: of all, or of ``codes``."""
        query = sa.select(ColumnCode.code, ColumnCode.document).where(ColumnCode.kind == "case")
        if codes is not None:
            query = query.where(ColumnCode.code.in_(codes))
        return {row.code: row.document for row in self.connection.execute(query)}


def load(connection: Connection, filters: Filters, names: Sequence[str]) -> Frame:
    """Return the columns ``names`` of the measurements of ``filters`` (``latest`` and ``limit`` are the caller's to apply)."""
    documents = sa.select(ColumnCode.code, ColumnCode.document).where(ColumnCode.kind == "what")
    whats = {row.code: row.document for row in connection.execute(documents)}
    names = list(dict.fromkeys(names))
    tests = _tests(connection, filters, whats)
    needed = list(dict.fromkeys([*names, *(name for name, _ in tests)]))
    parts: dict[str, list[Array]] = {name: [] for name in names}
    for chunk in _chunks(connection, filters.listed("benchmark"), needed):
        arrays = {name: _array(name, data) for name, data in zip(needed, chunk, strict=True)}
        keep: Array | None = None
        for name, test in tests:
            passed = test(arrays[name])
            keep = passed if keep is None else keep & passed
        for name in names:
            parts[name].append(arrays[name] if keep is None else arrays[name][keep])
    return Frame({name: np.concatenate(found) if found else _array(name, b"") for name, found in parts.items()}, whats, connection)


def _chunks(connection: Connection, benchmarks: list[str] | None, names: Sequence[str]) -> Sequence[Any]:
    query = sa.select(*(getattr(ColumnChunk, name) for name in names))
    if benchmarks is not None:
        query = query.where(ColumnChunk.benchmark.in_(benchmarks))
    if connection.dialect.name != "postgresql":
        return connection.execute(query).all()
    # Bytes as they are, not as hexadecimal text: the driver is asked itself, in the same transaction.
    raw: Any = connection.connection.driver_connection
    terms = "" if benchmarks is None else " WHERE benchmark = ANY(%s)"
    statement = f"SELECT {', '.join(names)} FROM column_chunks{terms}"  # noqa: S608 - names of our own columns
    with raw.cursor(binary=True) as cursor:
        return list(cursor.execute(statement, None if benchmarks is None else [benchmarks]).fetchall())


def _array(name: str, data: bytes) -> Array:
    made = np.frombuffer(data, dtype=ELEMENTS[name])
    return made.reshape(-1, 2) if name == "ids" else made


def _tests(connection: Connection, filters: Filters, whats: dict[int, dict[str, Any]]) -> list[tuple[str, Callable[[Array], Array]]]:
    """Return (column, test) for each filter that leaves something out."""
    tests: list[tuple[str, Callable[[Array], Array]]] = []
    listed = {name: filters.listed(name) for name in LISTED}
    if filters.model is not None or any(values is not None for values in listed.values()):
        model = None if filters.model is None else squash(filters.model)
        allowed = [
            code
            for code, what in whats.items()
            if all(values is None or what[name] in values for name, values in listed.items())
            and (model is None or model in squash(what["model"] or ""))
        ]
        tests.append(("whats", _codes(allowed)))
    for name in ("device", "device_ids"):
        value = getattr(filters, name)
        if value is not None:
            tests.append(("devices", _codes(_of_devices(connection, device_ids(connection, value) if name == "device" else value))))
    if filters.machine is not None or filters.run is not None:
        tests.append(("runs", _codes(_of_runs(connection, filters))))
    if filters.since is not None:
        moment = microseconds(filters.since)
        tests.append(("moments", lambda values: values >= moment))
    withdrawn = [] if filters.retracted else list(connection.execute(sa.select(Retraction.target_id)).scalars())
    if withdrawn:
        tests.append(("ids", _is_none_of(pack_ids(connection, withdrawn))))
    return tests


def _codes(allowed: Sequence[int]) -> Callable[[Array], Array]:
    """Return the test whether a code is one of ``allowed``."""
    table = np.zeros(max(allowed, default=0) + 2, dtype=bool)
    table[list(allowed)] = True
    return lambda values: table[np.minimum(values, len(table) - 1)]


def _is_none_of(marks: Array) -> Callable[[Array], Array]:
    """Return the test whether an id is none of ``marks``."""
    # Almost no id shares its last 16 bits with a mark: the others need no closer look.
    rough = np.zeros(1 << 16, dtype=bool)
    rough[_last_bits(marks)] = True
    known = {(int(high), int(low)) for high, low in marks}

    def test(ids: Array) -> Array:
        passed = ~rough[_last_bits(ids)]
        for place in np.flatnonzero(~passed).tolist():
            passed[place] = (int(ids[place, 0]), int(ids[place, 1])) not in known
        return passed

    return test


def _last_bits(ids: Array) -> Array:
    return np.ascontiguousarray(ids).view(np.uint8).reshape(-1, 16)[:, 14:].copy().view("<u2")[:, 0]


def pack_ids(connection: Connection, identifiers: Sequence[str]) -> Array:
    """Return ids as the column ``ids`` holds them; those that no measurement has been stored under are left out."""
    packed = [bytes.fromhex(name.replace("-", "")) for name in identifiers if is_uuid(name)]
    others = [name for name in identifiers if not is_uuid(name)]
    if others:
        query = sa.select(ColumnCode.code).where(ColumnCode.kind == "id", ColumnCode.key.in_(others))
        packed += [NO_UUID + code.to_bytes(4, "big") for code in connection.execute(query).scalars()]
    return _array("ids", b"".join(packed))


def _of_devices(connection: Connection, identifiers: Sequence[str]) -> list[int]:
    known = connection.execute(sa.select(ColumnCode.key, ColumnCode.code).where(ColumnCode.kind == "device"))
    wanted = set(identifiers)
    return [code for key, code in known if key in wanted]


def _of_runs(connection: Connection, filters: Filters) -> list[int]:
    query = sa.select(ColumnCode.code).where(ColumnCode.kind == "run")
    if filters.run is not None:
        query = query.where(beginning(ColumnCode.key, filters.run))
    if filters.machine is not None:
        query = query.join(Run, Run.id == ColumnCode.key).join(Machine, Machine.id == Run.machine_id).where(of_machine(filters.machine))
    return list(connection.execute(query).scalars())


def order_newest_first(frame: Frame) -> Array:
    """Return the order of a frame (with ``ids`` and ``moments``) by date and then by id, both from the last; unknown dates come last."""
    ids = frame["ids"]
    order: Array = np.lexsort((ids[:, 1], ids[:, 0], frame["moments"]))[::-1]
    return order
