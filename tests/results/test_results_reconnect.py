"""A PostgreSQL server that goes away in the middle of the work."""

from __future__ import annotations

import pytest

from advisor.errors import DatabaseError
from advisor.results.store import Store


def cut(url: str) -> None:
    """End every connection to the PostgreSQL database ``url`` from outside, as a restarting server does."""
    import psycopg

    plain = url.replace("+psycopg", "")
    with psycopg.connect(plain.rsplit("/", 1)[0] + "/postgres", autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [plain.rsplit("/", 1)[1]])


def test_a_lost_connection_is_made_again(postgresql_url: str) -> None:
    from sqlalchemy import event

    m = {"benchmark": "gemm", "backend": "torch", "device": "cpu0", "dtype": "fp32", "params": {}, "metric": "seconds", "value": 1.0}
    cuts = []
    with Store.open(postgresql_url) as store:
        run = store.start_run(kind="bench", software={}, settings={})
        cut(postgresql_url)
        between = store.add_measurement(run, m)

        @event.listens_for(store.engine, "commit")
        def in_the_middle(connection: object) -> None:
            if not cuts:
                cuts.append(1)
                cut(postgresql_url)

        inside = store.add_measurement(run, m)
        assert cuts
        assert {found["id"] for found in store.measurements()} == {between, inside}


def test_a_connection_lost_for_good_is_one_line(postgresql_url: str) -> None:
    from sqlalchemy import event

    with Store.open(postgresql_url) as store:
        event.listen(store.engine, "commit", lambda connection: cut(postgresql_url))
        with pytest.raises(DatabaseError) as caught:
            store.start_run(kind="bench", software={}, settings={})
    assert caught.value.line().startswith("error[DB-")
