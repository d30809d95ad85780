"""Several clients at once: no error, and every row that was acknowledged is there once, in rows and in columns."""

from __future__ import annotations

import threading
import uuid
from typing import Any

from advisor.results.columns import are_whole

CLIENTS, BATCHES, ROWS = 4, 4, 50


def test_clients_at_once_lose_and_double_nothing(both: Any, machine: Any, gemm: Any) -> None:
    secrets = [both.token(f"client-{index}") for index in range(CLIENTS)]
    sent: list[str] = []
    wrong: list[str] = []

    def client(index: int) -> None:
        for _ in range(BATCHES):
            rows = [{"record": "measurement", **gemm(m=64 + row, id=str(uuid.uuid4()), machine=f"{index:032x}")} for row in range(ROWS)]
            body = {"records": [{"record": "machine", "document": machine(f"{index:032x}")}, *rows]}
            for _ in range(2):  # An answer that was lost: the same batch comes again.
                answer = both.submit(body, secrets[index], idempotency_key=rows[0]["id"])
                if answer.status_code not in (200, 201):
                    wrong.append(answer.text)
            sent.extend(str(row["id"]) for row in rows)

    threads = [threading.Thread(target=client, args=(index,)) for index in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    stored = [row["id"] for row in both.service.store.measurements()]
    assert len(sent) == CLIENTS * BATCHES * ROWS
    assert sorted(stored) == sorted(sent)
    with both.service.store.reading() as connection:
        assert are_whole(connection)
    assert both.get("/index.json").json()["measurements"] == len(sent)
