"""Pages and their twins: there, escaped, guarded, cached, and clear about what is wrong."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from typing import Any

import pytest

PAGES = (
    "/", "/machines", "/machines/" + "f" * 32, "/devices", "/devices/a100-sxm4-80gb", "/devices/dgx-a100-80gb", "/measurements",
    "/measurements?benchmark=gemm&device=a100&limit=5", "/compare", "/compare?benchmark=inference&by=backend", "/recommend",
    "/recommend?model=bert-base&hardware=1xt4&task=infer&global_batch=8&seq=128", "/docs",
)  # fmt: skip
VOID = {"meta", "link", "input", "br", "hr", "img", "circle", "line", "rect", "polygon", "polyline"}


class Reader(HTMLParser):
    """Checks that elements are closed in order and collects what could run or load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.problems: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name.startswith("on") or name == "style" or tag in ("script", "iframe", "object"):
                self.problems.append(f"{tag} {name}={value}")
            if name in ("href", "src", "action"):
                self.links.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_whole_and_loads_nothing_from_elsewhere(seeded: Any, path: str) -> None:
    response = seeded.page(path)
    assert response.status_code == 200, response.text[:500]
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    reader = Reader()
    reader.feed(response.text)
    assert reader.problems == []
    assert reader.open == []
    assert "<h1" in response.text
    assert '<meta name="viewport"' in response.text
    outside = [link for link in reader.links if "://" in link and f'<a href="{link}" rel="noreferrer">' not in response.text]
    assert outside == []


@pytest.mark.parametrize("path", [path for path in PAGES if path != "/docs"])
def test_every_page_has_a_twin(seeded: Any, path: str) -> None:
    base, _, query = path.partition("?")
    twin = seeded.get(("/index" if base == "/" else base) + ".json" + (f"?{query}" if query else ""))
    assert twin.status_code == 200
    assert twin.headers["content-type"] == "application/json"
    assert twin.json()["schema_version"] == 1
    by_header = seeded.get(path, headers={"accept": "application/json"})
    assert by_header.headers["content-type"] == "application/json"
    assert by_header.json().keys() == twin.json().keys()


def test_security_headers_are_on_every_answer(seeded: Any) -> None:
    for path in ("/", "/index.json", "/style.css", "/nothing", "/metrics", "/devices/a100-sxm4-80gb/roofline.svg"):
        headers = seeded.get(path).headers
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["content-security-policy"].startswith("default-src"), path
        assert "unsafe" not in headers["content-security-policy"] or path.endswith(".svg"), path


def test_what_is_stored_is_escaped(seeded: Any) -> None:
    text = seeded.page("/machines/" + "f" * 32).text
    assert "Test &lt;CPU&gt;" in text
    assert "<script>" not in text
    assert "do &amp; mend" in text
    found = seeded.page("/measurements?benchmark=%22%3E%3Cscript%3Ealert(1)%3C/script%3E").text
    assert "<script>" not in found
    assert "&#34;&gt;&lt;script&gt;" in found


def test_unchanged_content_is_not_sent_again(seeded: Any) -> None:
    first = seeded.get("/devices.json")
    again = seeded.get("/devices.json", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""
    assert seeded.get("/devices.json", headers={"if-none-match": '"other"'}).status_code == 200


def test_measurements_page_by_page_are_all_of_them_once(seeded: Any) -> None:
    wanted = seeded.get("/measurements.json?benchmark=attention&limit=500").json()
    seen: list[str] = []
    cursor = ""
    while True:
        document = seeded.get(f"/measurements.json?benchmark=attention&limit=500&cursor={cursor}").json()
        seen += [row["id"] for row in document["measurements"]]
        cursor = document["next_cursor"]
        if cursor is None:
            break
    assert wanted["measurements"][0]["id"] == seen[0]
    assert (
        len(seen) == len(set(seen)) == seeded.service.store.query("SELECT count(*) FROM measurements WHERE benchmark='attention'")[1][0][0]
    )


def test_dated_measurements_come_first_in_order(seeded: Any) -> None:
    first = seeded.get("/measurements.json?limit=3").json()
    rest = seeded.get(f"/measurements.json?limit=3&cursor={first['next_cursor']}").json()
    assert [row["measured_at"] is not None for row in first["measurements"] + rest["measurements"]] == [True] * 4 + [False] * 2


def test_the_roofline_is_of_the_sheet_and_of_what_was_measured(seeded: Any) -> None:
    drawn = seeded.get("/devices/a100-sxm4-80gb.json").json()["roofline"]
    assert {"dtype": "bf16", "flops_per_s": 312e12} in drawn["roofs"]
    bf16 = [point for point in drawn["points"] if point["dtype"] == "bf16"]
    assert bf16
    assert all(point["flops_per_s"] <= 312e12 for point in bf16)
    square = seeded.get("/machines/" + "f" * 32 + ".json").json()["rooflines"]["cpu0"]["points"]
    # 2·512³ FLOP over three matrices of 512² fp32 elements.
    assert any(point["intensity"] == pytest.approx(512 / 6) for point in square)


@pytest.mark.parametrize(
    "path",
    [
        "/devices/a100-sxm4-80gb/roofline.svg",
        "/compare.svg?benchmark=gemm",
        "/recommend/time.svg?model=bert-base&hardware=1xt4&task=infer&global_batch=8&seq=128",
        "/machines/" + "f" * 32 + "/roofline.svg?device=cpu0",
    ],
)
def test_pictures_are_svg_files_that_stand_alone(seeded: Any, path: str) -> None:
    response = seeded.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "image/svg+xml"
    root = ElementTree.fromstring(response.text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.find("{http://www.w3.org/2000/svg}style") is not None
    assert root.find("{http://www.w3.org/2000/svg}title").text  # type: ignore[union-attr]
    assert not re.findall(r"(?:NaN|inf|nan)\b", response.text)


def test_the_answer_of_a_question_is_that_of_the_command(seeded: Any) -> None:
    from advisor.usecases.question import Request
    from advisor.usecases.recommend import recommend

    given = frozenset({"model", "hardware", "seq", "global_batch"})
    own = recommend(Request(model="gpt-13b", hardware="64xa100-sxm4-80gb", seq=2048, global_batch=512, given=given))
    served = seeded.get("/recommend.json?model=gpt-13b&hardware=64xa100-sxm4-80gb&seq=2048&global_batch=512").json()
    assert own.recommendation is not None
    assert served["answer"]["recommendation"]["plan_id"] == own.recommendation.plan_id
    assert seeded.service.store.latest_recommendation() is None  # reading stores nothing


BAD = {
    "/recommend.json?model=/etc/passwd": 400,
    "/recommend.json?model=../../x.json": 400,
    "/recommend.json?model=x.py:build": 400,
    "/recommend.json?model=gpt-13": 400,
    "/recommend.json?model=gpt-13b&hardware=99999999xa100": 400,
    "/recommend.json?model=gpt-13b&hardware=20000xa100-sxm4-80gb": 400,
    "/recommend.json?model=gpt-13b&hardware=8xnothing": 400,
    "/recommend.json?model=gpt-13b&seq=-1": 400,
    "/recommend.json?model=gpt-13b&global_batch=1e9": 400,
    "/recommend.json?model=gpt-13b&limit=nonsense": 400,
    "/recommend.json?model=gpt-13b&limit=ttft_s=nan": 400,
    "/recommend.json?model=gpt-13b&fix=tp=x&hardware=8xa100-sxm4-80gb": 400,
    "/recommend.json?model=gpt-13b&task=dance": 400,
    "/recommend.json?hardware=8xa100-sxm4-80gb": 400,
    "/measurements.json?cursor=AAAA": 400,
    "/measurements.json?cursor=bnVsbA": 400,
    "/measurements.json?limit=0": 422,
    "/measurements.json?limit=x": 422,
    "/measurements.json?benchmark=%00": 400,
    "/machines/a%00b.json": 400,
    "/measurements.json?since=yesterday-ish": 400,
    "/measurements/unknown.json": 404,
    "/machines/unknown.json": 404,
    "/machines.json?offset=-1": 422,
    "/devices/unknown.json": 404,
    "/devices/..%2f..%2fetc%2fpasswd.json": 404,
    "/static/..%2f..%2fapp.py": 404,
    "/compare.json?by=password": 400,
    "/accuracy/nothing.svg": 404,
    "/recommend/nothing.svg?model=gpt-13b": 404,
}


@pytest.mark.parametrize(("path", "status"), BAD.items())
def test_bad_questions_get_a_clear_answer(seeded: Any, path: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeded.service.accuracy, "_document", {"kinds": {}})
    response = seeded.get(path)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["code"]
    assert error["message"]
    assert "Traceback" not in response.text


@pytest.mark.parametrize("field", ["benchmark", "backend", "device", "dtype", "machine", "model", "run", "status", "origin"])
def test_sql_is_never_taken_from_an_address(seeded: Any, field: str) -> None:
    before = seeded.service.store.query("SELECT count(*) FROM measurements")[1]
    for text in (
        "' OR '1'='1",
        "x'; DROP TABLE measurements; --",
        "%",
        "_",
        "\\",
        "gemm' UNION SELECT token_hash FROM api_tokens --",
    ):
        response = seeded.get("/measurements.json", params={field: text, "limit": 2})
        assert response.status_code == 200
        # A lone separator is part of every name of a device or model, as when a person types it.
        assert (field in ("device", "model") and text in "_\\%") or response.json()["measurements"] == []
    assert seeded.service.store.query("SELECT count(*) FROM measurements")[1] == before


def test_methods_that_write_are_refused_on_pages(seeded: Any) -> None:
    for path in ("/", "/machines", "/measurements.json", "/recommend"):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert seeded.send(method, path).status_code == 405, (method, path)


def test_errors_are_pages_for_browsers(seeded: Any) -> None:
    response = seeded.page("/machines/unknown")
    assert response.status_code == 404
    assert "<h1>Not found</h1>" in response.text


def test_metrics_count_requests_and_measurements(seeded: Any) -> None:
    seeded.get("/healthz")
    text = seeded.get("/metrics").text
    assert re.search(r'^advisor_http_requests_total\{method="GET",route="/healthz",status="200"\} \d+$', text, re.M)
    assert re.search(r'^advisor_measurements\{origin="published"\} \d{4,}$', text, re.M)
    for line in text.splitlines():
        assert line.startswith("#") or re.fullmatch(r"[a-z_]+(\{.*\})? [0-9.e+-]+", line), line


def test_the_description_names_every_twin_and_the_write_interface(seeded: Any) -> None:
    document = seeded.get("/openapi.json").json()
    paths = document["paths"]
    assert {"/index.json", "/machines.json", "/measurements.json", "/recommend.json", "/api/measurements", "/healthz"} <= set(paths)
    writing = [(path, method) for path, methods in paths.items() for method in methods if method not in ("get", "head")]
    assert sorted(path for path, _ in writing) == ["/api/measurements", "/api/retractions"]
    assert all("401" in paths[path][method]["responses"] for path, method in writing)
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


def test_an_empty_database_says_what_to_do(client: Any) -> None:
    assert "advisor db seed" in client.page("/").text
    for path in ("/machines", "/measurements", "/compare", "/devices/a100-sxm4-80gb", "/recommend"):
        assert client.page(path).status_code == 200, path


def test_accuracy_works_in_the_background_and_then_shows(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from advisor.usecases import published_accuracy

    go = threading.Event()
    point = {"id": "t-1", "group": "g", "hardware": "A100-80", "measured": 1.0, "predicted": 1.1, "low": 0.9, "high": 1.3}
    overall = {"n": 1, "median_abs_pct_error": 10.0, "p90_abs_pct_error": 10.0, "median_pct_error": 10.0, "coverage_80": 1.0}
    kind = {"rows": 2, "scored": 1, "overall": overall, "by": {"g": overall}, "skipped": {"why": 1}, "points": [point], "point_step": 1}

    def slow() -> dict[str, Any]:
        go.wait(30)
        return {"kinds": {"training": kind}}

    monkeypatch.setattr(published_accuracy, "score", slow)
    waiting = client.page("/accuracy")
    assert waiting.status_code == 202
    assert waiting.headers["retry-after"]
    assert client.get("/accuracy/training.svg").status_code == 409
    go.set()
    for _ in range(200):
        if client.get("/accuracy.json").status_code == 200:
            break
        threading.Event().wait(0.02)
    ready = client.page("/accuracy")
    assert ready.status_code == 200
    assert "10.0 %" in ready.text
    assert client.get("/accuracy/training.svg").status_code == 200
