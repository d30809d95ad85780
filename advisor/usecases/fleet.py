"""Probe or measure every node of a Ray cluster: one task a node, pinned to it, and everything into one database.

Ray places the tasks, carries them and says which node died; here is only who has had its turn. Records come back with a task's answer
and are stored by the one who asked, so nodes need no way to the database. A task that measures takes all that its node offers, so that
nothing else runs beside it.
"""

from __future__ import annotations

import gzip
import io
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from advisor.errors import EnvironmentLacks, UsageError
from advisor.results.importing import Importer
from advisor.results.lines import read_lines
from advisor.results.store import Store
from advisor.usecases.fleet_node import NodeAnswer, on_this_node

SCHEMA_VERSION = 1
KINDS = ("probe", "bench")
#: How often the cluster is looked at.
TICK_S = 1.0
#: Resources of a Ray node that are no devices.
_NO_DEVICES = ("CPU", "GPU", "memory", "object_store_memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """How patient to be: turns of a node beyond the first, seconds for one turn, and seconds to wait for a dead node to come back."""

    retries: int = 2
    timeout_s: float = 3600.0
    wait_s: float = 60.0


@dataclass(slots=True)
class _Turn:
    """One node of the cluster and how its turns went."""

    node_id: str
    address: str
    offers: dict[str, float]
    attempts: int = 0
    started: float = 0.0
    lost_at: float | None = None
    state: str = "waiting"
    reason: str | None = None
    answer: NodeAnswer | None = None

    def shown(self) -> dict[str, Any]:
        """Return the node as JSON holds it."""
        found = self.answer
        return {
            "node": self.node_id,
            "address": self.address,
            "state": self.state,
            "attempts": self.attempts,
            "reason": self.reason,
            "machine": None if found is None else found.fingerprint,
            "devices": [] if found is None else found.devices,
            "measurements": 0 if found is None else found.measurements,
            "ok": 0 if found is None else found.ok,
        }


@dataclass(slots=True)
class _Round:
    """The tasks that run, and what to do when one ends."""

    ray: Any
    task: Any
    kind: str
    options: dict[str, Any]
    patience: FleetOptions
    say: Callable[[str], None]
    known: set[str]
    running: dict[Any, _Turn] = field(default_factory=dict)
    lost: list[_Turn] = field(default_factory=list)

    def start(self, turn: _Turn) -> None:
        """Give the node its turn."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        turn.attempts += 1
        turn.started, turn.state, turn.lost_at = time.monotonic(), "running", None
        pinned = NodeAffinitySchedulingStrategy(node_id=turn.node_id, soft=False)
        taken = _taken(turn.offers) if self.kind == "bench" else {"num_cpus": 0}
        self.running[self.task.options(scheduling_strategy=pinned, max_retries=0, **taken).remote(self.kind, self.options)] = turn

    def ended(self, reference: Any) -> _Turn:
        """Take the answer of a task, or give its node another turn."""
        turn = self.running.pop(reference)
        try:
            found = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            self.failed(turn, _why(error))
            return turn
        if isinstance(found, str):
            self.failed(turn, found, again=False)
        else:
            turn.answer, turn.state, turn.reason = found, "done", None
        return turn

    def failed(self, turn: _Turn, reason: str, *, again: bool = True) -> None:
        """Note a failure; ``again`` is false for one that will not come right by itself."""
        turn.reason, turn.state = reason, "failed"
        alive = turn.node_id in alive_nodes(self.ray)
        if not again or turn.attempts > self.patience.retries:
            self.say(f"{turn.address}: failed: {reason}")
        elif alive:
            self.say(f"{turn.address}: {reason}; trying again")
            self.start(turn)
        else:
            self.say(f"{turn.address}: the node died; waiting {self.patience.wait_s:g} s for it to come back")
            turn.state, turn.lost_at = "lost", time.monotonic()
            self.lost.append(turn)

    def look(self) -> None:
        """End what takes too long, and give a node that came back its turn."""
        moment = time.monotonic()
        for reference, turn in list(self.running.items()):
            if moment - turn.started > self.patience.timeout_s:
                self.ray.cancel(reference, force=True)
                self.running.pop(reference)
                turn.state = "failed"
                turn.reason = f"no answer within {self.patience.timeout_s:g} s (is the node busy with other tasks?)"
                self.say(f"{turn.address}: {turn.reason}")
        if not self.lost:
            return
        alive = alive_nodes(self.ray)
        for turn in list(self.lost):
            there = [node for node in alive.values() if node["NodeManagerAddress"] == turn.address]
            fresh = next((node for node in there if node["NodeID"] not in self.known), None)
            if fresh is not None:
                self.lost.remove(turn)
                turn.node_id, turn.offers = fresh["NodeID"], fresh["Resources"]
                self.known.add(turn.node_id)
                self.say(f"{turn.address}: back again")
                self.start(turn)
            elif moment - (turn.lost_at or moment) > self.patience.wait_s:
                self.lost.remove(turn)
                turn.state, turn.reason = "failed", "the node died"
                self.say(f"{turn.address}: failed: the node died")


def fleet(
    kind: str,
    address: str,
    *,
    database_url: str,
    options: dict[str, Any] | None = None,
    patience: FleetOptions | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Run ``kind`` (``probe`` or ``bench``, with the options of ``usecases.bench.bench``) on every node of the Ray cluster at ``address``.

    Returns ``nodes`` (each with ``state`` ``done`` or ``failed`` and a reason) and ``stored`` (counts by kind of record). Each node's
    records are stored as soon as it is done. EnvironmentLacks where there is no Ray or no cluster, UsageError for an unknown kind.
    """
    if kind not in KINDS:
        raise UsageError(f"a fleet does not {kind}", f"known: {', '.join(KINDS)}")
    ray = _ray(address)
    try:
        with Store.open(database_url) as store:
            importer = Importer(store)
            task = ray.remote(on_this_node)
            turns = [_Turn(node["NodeID"], node["NodeManagerAddress"], node["Resources"]) for node in alive_nodes(ray).values()]
            round_ = _Round(ray, task, kind, options or {}, patience or FleetOptions(), say, {turn.node_id for turn in turns})
            say(f"{len(turns)} node{'' if len(turns) == 1 else 's'}")
            for turn in turns:
                round_.start(turn)
            while round_.running or round_.lost:
                done, _ = ray.wait(list(round_.running), timeout=TICK_S) if round_.running else (time.sleep(TICK_S) or [], [])
                for reference in done:
                    turn = round_.ended(reference)
                    if turn.answer is not None:
                        _store(importer, turn)
                        finished = sum(one.state == "done" for one in turns)
                        say(f"{turn.address}: done ({turn.answer.measurements} measurements); {finished} of {len(turns)}")
                round_.look()
    finally:
        ray.shutdown()
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "nodes": [turn.shown() for turn in turns],
        "stored": importer.summary.new,
        "conflicts": importer.summary.conflicts,
    }


def _store(importer: Importer, turn: _Turn) -> None:
    if turn.answer is not None:
        text = io.TextIOWrapper(gzip.GzipFile(fileobj=io.BytesIO(turn.answer.records)), encoding="utf-8")
        importer.take(read_lines(text, f"the records of {turn.address}"))


def _ray(address: str) -> Any:
    """Return Ray, connected to the cluster."""
    try:
        import ray
    except ImportError as error:
        hint = "pip install 'hw-advisor[ray]', the same version on every node"
        raise EnvironmentLacks("NO-RAY", "a fleet needs the package ray", hint) from error
    try:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        said = str(error).strip().splitlines()
        reason = said[0] if said else type(error).__name__
        what = f"cannot join the Ray cluster at {address}: {reason}"
        raise EnvironmentLacks("NO-CLUSTER", what, "`ray status` there says whether it runs") from error
    return ray


def alive_nodes(ray: Any) -> dict[str, dict[str, Any]]:
    """Return the nodes of the cluster that live, by id."""
    return {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}


def _taken(offers: dict[str, float]) -> dict[str, Any]:
    """Return the options of a task that takes all CPUs, GPUs and other devices of a node."""
    others = {name: amount for name, amount in offers.items() if name not in _NO_DEVICES and ":" not in name}
    return {"num_cpus": offers.get("CPU", 0), "num_gpus": offers.get("GPU", 0), "resources": others}


def _why(error: Exception) -> str:
    """Return a failure in one line."""
    cause = getattr(error, "cause", None)
    said = [line.strip() for line in str(cause or error).strip().splitlines() if line.strip()]
    return f"{type(cause or error).__name__}: {said[0] if said else 'no reason was given'}"[:300]
