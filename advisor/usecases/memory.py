"""Remember answers that were dear, for a moment: a large database is not asked the same thing by every reader."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

#: An answer that took longer than this is remembered for so long, so that one from a small database is always fresh.
DEAR_S, KEPT_S = 0.2, 60.0
#: Answers that are kept.
MOST = 64


class Memory:
    """Dear answers by question. Those who ask what is being worked out wait for it instead of asking again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._working: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, build: Callable[[], Any]) -> Any:
        """Return the answer of ``build``, or the one it gave to ``key`` a moment ago."""
        with self._lock:
            turn = self._working.setdefault(key, threading.Lock())
        with turn:
            try:
                with self._lock:
                    until, answer = self._kept.get(key, (float("-inf"), None))
                return answer if self._clock() < until else self._build(key, build)
            finally:
                with self._lock:
                    self._working.pop(key, None)

    def _build(self, key: Hashable, build: Callable[[], Any]) -> Any:
        start = self._clock()
        answer = build()
        if self._clock() - start > DEAR_S:
            with self._lock:
                self._kept[key] = (self._clock() + KEPT_S, answer)
                self._kept.move_to_end(key)
                while len(self._kept) > MOST:
                    self._kept.popitem(last=False)
        return answer
