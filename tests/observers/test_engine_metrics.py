"""The engine observer: a real process beside the built-in LLM, and servers that have nothing to say."""

import json
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cotenant.observers.engine_metrics import main, metrics_url
from tests.observers.processes import Observer, observing
from tests.tenants import built_in

MODULE = "cotenant.observers.engine_metrics"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8811", "http://127.0.0.1:8811/metrics"),
        ("http://host:1/v1/", "http://host:1/metrics"),
        ("https://host/v1/completions?x=1", "https://host/metrics"),
        ("http://host/engine/metrics", "http://host/engine/metrics"),
        ("localhost:8000", "http://localhost:8000/metrics"),
    ],
)
def test_where_the_metrics_of_a_server_are(url: str, expected: str) -> None:
    assert metrics_url(url) == expected


def test_a_url_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--run-dir", str(tmp_path), "--tenant", "llm", "--url", "http://"])
    assert caught.value.code == 2
    assert "--url" in capsys.readouterr().err


def observe(run_dir: Path, url: str) -> Any:
    arguments = ("--tenant", "llm", "--url", url, "--period-ms", "50")
    return observing(run_dir, MODULE, *arguments, says_ready=False)


def values(observer: Observer, metric: str) -> list[float]:
    rows = observer.rows("engine")
    assert {row["tenant"] for row in rows} <= {"llm"}
    return [row["value"] for row in rows if row["metric"] == metric]


def test_beside_the_built_in_llm(tmp_path: Path) -> None:
    with built_in.running("completions") as server, observe(tmp_path, server.url + "/v1") as observer:
        observer.until(lambda: len(values(observer, "running")) >= 2)
        body = {"model": "m", "prompt": list(range(100, 140)), "max_tokens": 12, "ignore_eos": True}
        asked = urllib.request.Request(
            server.url + "/v1/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert answer.status == 200
        observer.until(lambda: sum(values(observer, "generation_tokens")) >= 12)
        assert observer.end() == 0
    assert sum(values(observer, "generation_tokens")) == 12
    assert sum(values(observer, "prompt_tokens")) == 40
    steps, tokens = sum(values(observer, "steps")), sum(values(observer, "step_tokens"))
    assert steps >= 12
    assert tokens >= 40 + 11
    assert max(values(observer, "largest_step_tokens")) >= 16
    assert set(values(observer, "waiting")) == {0}
    assert all(0 <= value <= 1 for value in values(observer, "kv_cache_usage"))
    assert not values(observer, "unavailable")
    scrapes = [row for row in observer.rows("host") if row["metric"] == "scrape_ns"]
    assert {row["source"] for row in scrapes} == {"engine:llm"}


class Answer(BaseHTTPRequestHandler):
    """Status and body by turns; the last again and again."""

    answers: list[tuple[int, str]] = []  # noqa: RUF012
    asked = 0
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        status, text = self.answers[min(type(self).asked, len(self.answers) - 1)]
        type(self).asked += 1
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(*answers: tuple[int, str]) -> Iterator[tuple[str, type[Answer]]]:
    handler = type("Answers", (Answer,), {"answers": list(answers), "asked": 0})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", handler
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "text", "asked_again"),
    [(404, "not found", False), (401, "", False), (500, "oops", True), (200, "<html></html>", True),
     (200, "other_metric 1\n", True), (200, "", True)],
)  # fmt: skip
def test_a_server_without_metrics_has_one_row_that_says_so(
    tmp_path: Path, status: int, text: str, asked_again: bool
) -> None:
    with serving((status, text)) as (url, handler), observe(tmp_path, url) as observer:
        observer.until(lambda: len(observer.rows("engine")) >= 1)
        if asked_again:
            observer.until(lambda: handler.asked >= 4)
        assert observer.end() == 0
    assert [(row["metric"], row["value"]) for row in observer.rows("engine")] == [("unavailable", status)]


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with observe(tmp_path, url) as observer:
        observer.until(lambda: len(observer.rows("host")) >= 3)
        assert observer.end() == 0
    assert [(row["metric"], row["value"]) for row in observer.rows("engine")] == [("unavailable", 0)]


def test_a_server_that_fails_now_and_then_keeps_its_counts(tmp_path: Path) -> None:
    def page(count: int) -> tuple[int, str]:
        return 200, f"vllm:generation_tokens_total {count}\n"

    answers = (page(10), page(15), (503, ""), (503, ""), page(40), page(7))  # the last: it began again
    with serving(*answers) as (url, handler), observe(tmp_path, url) as observer:
        observer.until(lambda: handler.asked >= 8)
        assert observer.end() == 0
    rows = [(row["metric"], row["value"]) for row in observer.rows("engine")]
    assert rows[:4] == [
        ("generation_tokens", 5), ("unavailable", 503), ("generation_tokens", 25), ("generation_tokens", 7),
    ]  # fmt: skip
    assert set(rows[4:]) <= {("generation_tokens", 0)}


def test_a_server_that_never_answers_does_not_hold_up_the_end(tmp_path: Path) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    with silent, observe(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}") as observer:
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(100).startswith(b"GET /metrics")
            assert observer.end() == 0
    assert observer.rows("engine") == []
