"""Submitting over HTTP: nothing without a token, nothing twice, nothing of another's, and nothing that is wrong or too large."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.results.exchange import export_records
from advisor.results.filters import Filters
from advisor.results.store import Store
from advisor.usecases import tokens


def count(client: Any) -> int:
    return int(client.service.store.query("SELECT count(*) FROM measurements")[1][0][0])


def exported(path: Any, machine: dict[str, Any], measurements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the export of a database in which another machine stored ``measurements``."""
    with Store.open(f"sqlite:///{path}") as store:
        run = store.start_run(
            kind="bench", machine_id=store.save_machine(machine), software={"torch": "2.4"}, command="advisor bench --secret"
        )
        store.add_measurements(run, measurements)
        with store.reading() as connection:
            return list(export_records(connection, Filters(retracted=True)))


def test_nothing_is_written_without_a_token(client: Any, gemm: Any) -> None:
    body = {"measurements": [gemm()]}
    client.token()
    for wrong in (None, "", "adv_wrong", "x" * 400):
        response = client.submit(body, wrong)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
    assert client.send("POST", "/api/retractions", json={"id": "x", "reason": "y"}).status_code == 401
    assert count(client) == 0


def test_revoked_expired_and_narrow_tokens_do_not_submit(client: Any, gemm: Any) -> None:
    body = {"measurements": [gemm()]}
    revoked, narrow = client.token("gone"), client.token("narrow", "retract")
    tokens.revoke(client.url, "gone")
    assert client.submit(body, revoked).status_code == 401
    assert client.submit(body, narrow).status_code == 403
    expired = client.token("late")
    with client.service.store.writing() as connection:
        connection.exec_driver_sql("UPDATE api_tokens SET expires_at = '2020-01-01 00:00:00' WHERE name = 'late'")
    assert client.submit(body, expired).status_code == 401
    assert count(client) == 0


def test_the_secret_is_not_stored(client: Any) -> None:
    secret = client.token()
    columns, rows = client.service.store.query("SELECT * FROM api_tokens")
    assert "token_hash" in columns
    assert secret not in json.dumps(rows, default=str)


def test_an_export_is_stored_once(both: Any, machine: Any, gemm: Any, tmp_path: Any) -> None:
    records = exported(tmp_path / "other.db", machine(), [gemm(m=64 << i) for i in range(3)])
    token = both.token()
    lines = "\n".join(json.dumps(record) for record in records).encode()
    first = both.submit(lines, token, content_type="application/x-ndjson", idempotency_key="k-1")
    assert first.status_code == 201, first.text
    assert first.json()["new"]["measurement"] == 3
    again = both.submit(lines, token, content_type="application/x-ndjson", idempotency_key="k-1")
    assert (again.status_code, again.json()["repeated"]) == (200, True)
    assert again.json()["submission"] == first.json()["submission"]
    other_key = both.submit(gzip.compress(lines), token, content_type="application/x-ndjson", content_encoding="gzip")
    assert other_key.json()["known"]["measurement"] == 3
    assert count(both) == 3
    stored = both.service.store.measurements()
    assert {row["origin"] for row in stored} == {"shared"}
    assert {row["machine"] for row in stored} == {"f" * 32}


def test_a_key_does_not_go_with_two_bodies(client: Any, gemm: Any) -> None:
    token = client.token()
    assert client.submit({"measurements": [gemm()]}, token, idempotency_key="k").status_code == 201
    assert client.submit({"measurements": [gemm(m=1)]}, token, idempotency_key="k").status_code == 409
    assert client.submit({"measurements": [gemm()]}, token, idempotency_key="a\tb").status_code == 400
    assert count(client) == 1


def test_the_bench_document_is_taken(client: Any, gemm: Any) -> None:
    response = client.submit({"schema_version": 1, "measurements": [gemm(), gemm(m=1024)]}, client.token())
    assert response.status_code == 201
    assert count(client) == 2
    assert client.submit({"schema_version": 2, "measurements": [gemm()]}, client.token("b")).status_code == 400


def test_host_names_and_commands_are_left_out_unless_asked(make_client: Any, machine: Any, gemm: Any, tmp_path: Any) -> None:
    records = exported(tmp_path / "other.db", machine(), [gemm(conditions={"hostname": "secret-host", "load": 1.0})])
    strict, open_ = make_client(), make_client(keep_host_names=True)
    assert strict.submit({"records": records}, strict.token()).status_code == 201
    dump = json.dumps(
        [strict.service.store.query(f"SELECT * FROM {name}")[1] for name in ("machines", "runs", "measurements")], default=str
    )
    assert "secret" not in dump
    assert "load" in dump
    other = exported(tmp_path / "third.db", machine(fingerprint="e" * 32), [gemm(conditions={"hostname": "kept-host"})])
    assert open_.submit({"records": other}, open_.token("open")).status_code == 201
    assert open_.service.store.measurements(machine="e" * 32)[0]["conditions"]["hostname"] == "kept-host"


def test_two_users_cannot_touch_each_others_submissions(client: Any, machine: Any, gemm: Any, tmp_path: Any) -> None:
    records = exported(tmp_path / "other.db", machine(), [gemm()])
    one, two = client.token("one", "submit", "retract"), client.token("two", "submit", "retract")
    assert client.submit({"records": records}, one).status_code == 201
    run = next(record["id"] for record in records if record["record"] == "run")
    found = client.service.store.measurements()[0]["id"]
    added = {**gemm(m=7), "record": "measurement", "run_id": run}
    assert client.submit({"records": records}, two).status_code == 403
    assert client.submit([added], two).status_code == 403
    for identifier in (found, run):
        response = client.send(
            "POST", "/api/retractions", json={"id": identifier, "reason": "mine"}, headers={"authorization": f"Bearer {two}"}
        )
        assert response.status_code == 403
    assert count(client) == 1
    assert client.submit([added], one).status_code == 201
    gone = client.send("POST", "/api/retractions", json={"id": found, "reason": "fan"}, headers={"authorization": f"Bearer {one}"})
    assert gone.json()["retracted"] == [found]
    assert [row["id"] for row in client.service.store.measurements()] != [found]


def test_what_this_server_measured_is_not_a_clients_to_add_to(client: Any, gemm: Any) -> None:
    run = client.service.store.start_run(kind="bench")
    assert client.submit([{**gemm(), "record": "measurement", "run_id": run}], client.token()).status_code == 403


def test_claims_to_be_published_or_another_machine_are_not_believed(client: Any, machine: Any, gemm: Any) -> None:
    token = client.token()
    forged = {"record": "machine", "id": "11111111-1111-4111-8111-111111111111", "fingerprint": "a" * 32, "document": machine()}
    device = {
        "record": "device",
        "id": "22222222-2222-4222-8222-222222222222",
        "machine_id": forged["id"],
        "key": "cuda:7",
        "profile": "h100-sxm5-80gb",
    }
    assert client.submit([forged, device, {**gemm(), "origin": "published"}], token).status_code == 201
    (row,) = client.service.store.measurements()
    assert row["origin"] == "shared"
    assert row["machine"] == "f" * 32  # as the document says, not as the record around it claims
    assert client.service.store.query("SELECT count(*) FROM devices WHERE key = 'cuda:7'")[1] == [(0,)]


def test_a_contradiction_stores_nothing_of_the_batch(client: Any, machine: Any, gemm: Any, tmp_path: Any) -> None:
    records = exported(tmp_path / "other.db", machine(), [gemm()])
    token = client.token()
    client.submit({"records": records}, token)
    changed = [dict(record) for record in records]
    for record in changed:
        if record["record"] == "measurement":
            record.update(value=1.0)
            record.pop("content_hash")
    fresh = {**gemm(m=3), "record": "measurement", "run_id": next(r["id"] for r in records if r["record"] == "run")}
    response = client.submit({"records": [*changed, fresh]}, token)
    assert response.status_code == 409
    assert count(client) == 1
    late = client.submit({"records": [fresh, {**gemm(), "value": "fast"}]}, token)
    assert late.status_code == 400
    assert count(client) == 1


WRONG = {
    "not json": b"{",
    "a number": b"1",
    "no records": b"[]",
    "null": b"null",
    "nan": b'{"measurements": [{"value": NaN}]}',
    "records of numbers": b"[1, 2]",
    "unknown kind": b'[{"record": "password"}]',
    "retraction": b'[{"record": "retraction", "target_id": "x", "reason": "y"}]',
    "missing fields": b'[{"record": "measurement", "benchmark": "gemm"}]',
    "deep": b"[" * 5_000 + b"]" * 5_000,
    "deep record": b'[{"params": ' + b'{"a":' * 60 + b"1" + b"}" * 60 + b"}]",
    "bad utf-8": b'["\xff\xfe"]',
    "huge number": b'[{"samples": ' + b"9" * 5_000 + b"}]",
    "newer export": b'[{"record": "header", "format": "advisor-results", "version": 99}]',
}


@pytest.mark.parametrize("name", WRONG)
def test_malformed_bodies_are_refused(client: Any, name: str) -> None:
    response = client.submit(WRONG[name], client.token())
    assert response.status_code == 400, response.text
    assert response.json()["error"]["message"]
    assert count(client) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"value": "fast"}, {"benchmark": None}, {"device": 7}, {"params": [1]}, {"samples": -1}, {"samples": 1 << 40}, {"id": "x" * 40},
        {"id": "../../etc"}, {"measured_at": "soon"}, {"measured_at": "2999-01-01"}, {"measured_at": "0001-01-01T00:00:00+23:59"},
        {"run_id": "x"}, {"run_id": "33333333-3333-4333-8333-333333333333"}, {"reason": "x" * 30_000}, {"sample_seconds": ["a"]},
        {"content_hash": "0" * 64}, {"low": {}}, {"conditions": "x"},
    ],
)  # fmt: skip
def test_wrong_measurements_are_refused(client: Any, gemm: Any, change: dict[str, Any]) -> None:
    response = client.submit([{**gemm(), **change}], client.token())
    if "content_hash" in change:  # a measurement without a run gets one here, so its hash is new
        assert response.status_code == 201
        return
    assert response.status_code == 400, response.text
    assert count(client) == 0


def test_limits_of_size(make_client: Any, gemm: Any) -> None:
    client = make_client(max_body_bytes=50_000, max_decompressed_bytes=200_000)
    token = client.token()
    assert client.submit(b" " * 60_000, token).status_code == 413

    async def chunks() -> Any:
        for _ in range(20):
            yield b" " * 10_000

    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    assert client.send("POST", "/api/measurements", content=chunks(), headers=headers).status_code == 413
    many = {"measurements": [{} for _ in range(2_001)]}
    assert client.submit(many, token).status_code == 400
    assert count(client) == 0


@pytest.mark.parametrize("size", [199_999, 200_000, 200_001, 400_000, 50_000_000])
def test_a_zip_bomb_stops_at_the_limit(make_client: Any, size: int) -> None:
    client = make_client(max_decompressed_bytes=200_000)
    response = client.submit(gzip.compress(b" " * size), client.token(), content_encoding="gzip")
    assert response.status_code == (413 if size > 200_000 else 400), response.text


def test_broken_compression_is_refused(client: Any, gemm: Any) -> None:
    token = client.token()
    good = gzip.compress(json.dumps({"measurements": [gemm()]}).encode())
    for body in (good[:-4], good + b"more", good + good, b"not gzip", zlib.compress(b"{}"), b""):
        assert client.submit(body, token, content_encoding="gzip").status_code == 400
    assert client.submit(good, token, content_encoding="br").status_code == 415
    assert client.submit(good, token, content_type="text/plain").status_code == 415
    assert count(client) == 0
    assert client.submit(good, token, content_encoding="gzip").status_code == 201


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = (
    "record",
    "id",
    "run_id",
    "machine_id",
    "document",
    "fingerprint",
    "device",
    "benchmark",
    "params",
    "value",
    "measured_at",
    "started_at",
    "kind",
    "environment_id",
    "samples",
    "sample_seconds",
    "plan",
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6) | JSON, max_size=4),
    st.sampled_from(("machine", "environment", "device", "run", "measurement", "trial", None)),
)
def test_no_body_breaks_the_server(make_client: Any, records: list[Any], kind: str | None) -> None:
    client = _shared(make_client)
    if kind is not None:
        records = [
            {"benchmark": "gemm", "backend": "b", "device": "d", "dtype": "fp32", "metric": "seconds", **r, "record": kind}
            if isinstance(r, dict)
            else r
            for r in records
        ]
    response = client.submit({"records": records}, client.secret)
    assert response.status_code < 500, response.text


def _shared(make_client: Any) -> Any:
    """Return one client for all examples of a property."""
    if not hasattr(make_client, "shared"):
        make_client.shared = make_client(submissions_per_minute=1e6)
        make_client.shared.secret = make_client.shared.token()
    return make_client.shared
