"""The announcer with a real Mosquitto: restarted in mid-run, silent, slow, refusing, behind TLS."""

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cotenant.live import link
from cotenant.live.broker import Broker, broker_from
from cotenant.live.mqtt import FINISH_LIMIT_S, Announcer, Told
from cotenant.live.outbox import Outbox
from tests.live.mosquitto import PASSWORDS, Subscriber, mosquitto, needs_mosquitto, subscribed, until

pytestmark = needs_mosquitto

RUN = "2026-11-30T07-00-00Z-test"


class Announced:
    """An announcer with its queue, and what it told."""

    def __init__(self, broker: Broker, run_id: str = RUN) -> None:
        self.said: list[str] = []
        self.box = Outbox(time.time_ns)
        self.announcer = Announcer(
            broker,
            run_id,
            self.box,
            tell=self.said.append,
            on_reconnect=lambda: self.box.put("status", {"status": "running"}),
        )

    def finish_without_waiting(self) -> Told:
        """`finish`, which must be content with less than the wait for a broker that was there."""
        waits_s: list[float] = []
        thread = self.announcer._thread
        join = thread.join

        def counted(limit_s: float) -> None:
            waits_s.append(limit_s)
            join(limit_s)

        thread.join = counted  # type: ignore[method-assign, assignment]
        told = self.announcer.finish({"status": "complete"})
        assert 0 < sum(waits_s) < FINISH_LIMIT_S / 2
        return told


def announced(url: str, environ: Mapping[str, str] | None = None) -> Announced:
    return Announced(broker_from(url, environ or {}))


def payloads(subscriber: Subscriber, kind: str) -> list[dict[str, Any]]:
    return [
        json.loads(payload) for topic, _, payload in subscriber.lines() if topic.rpartition("/")[2] == kind
    ]


def in_order_once(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a subscriber keeps that takes only a higher `seq`, as the topics' description says."""
    kept: list[dict[str, Any]] = []
    for message in messages:
        if not kept or message["seq"] > kept[-1]["seq"]:
            kept.append(message)
    return kept


@pytest.mark.parametrize("qos", ["1", "2"])
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_every_underrun_once_in_order_though_the_broker_is_restarted(
    tmp_path: Path, kill: bool, qos: str
) -> None:
    with mosquitto(tmp_path) as broker, subscribed(broker, "-c", "-i", "dashboard", "-q", qos) as subscriber:
        one = announced(broker.url)
        one.box.put("status", {"status": "running"})
        for number in range(600):
            one.box.put("underrun", {"number": number})
            if number == 200:
                until(lambda: bool(payloads(subscriber, "underrun")), "the first underrun")
                broker.stop(kill=kill)
            if number == 400:
                time.sleep(0.3)  # longer than a message takes: these were put while there was no broker
                broker.start()
        told = one.announcer.finish({"status": "complete"}, 20)
        until(lambda: payloads(subscriber, "status")[-1:] != [] and "published" in
              payloads(subscriber, "status")[-1], "the last status")  # fmt: skip
        kept = in_order_once(payloads(subscriber, "underrun"))
        assert [message["number"] for message in kept] == list(range(600))
        assert told.reconnects == 1
        assert told.dropped == {}
        assert told.published == 603  # running, again after the restart, and the last one
        assert payloads(subscriber, "status")[-1] | {"seq": 0, "time": ""} == {
            "seq": 0, "time": "", "status": "complete", "published": 602, "dropped": 0, "reconnects": 1,
        }  # fmt: skip
        assert len(one.said) == 2


def test_only_what_stands_is_retained(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as broker:
        one = announced(broker.url)
        for kind in ("status", "stage", "underrun", "metrics", "verdict"):
            one.box.put(kind, {"status": "running"})
        told = one.announcer.finish({"status": "complete"})
        assert told.facts == {"published": 6, "dropped": 0, "reconnects": 0}
        with subscribed(broker, "-q", "1") as late:
            until(lambda: len(late.lines()) >= 4, "what is retained")
            time.sleep(0.2)
            found = {topic: json.loads(payload) for topic, _, payload in late.lines() if RUN in topic}
        assert found.keys() == {f"lab/{RUN}/{kind}" for kind in ("status", "stage", "verdict")}
        assert found[f"lab/{RUN}/status"]["status"] == "complete"


def test_a_wrong_password_is_told_and_delays_nothing(tmp_path: Path) -> None:
    (tmp_path / "passwords").write_text("")
    subprocess.run(
        [str(PASSWORDS), "-b", str(tmp_path / "passwords"), "me", "right"],
        check=True,
        capture_output=True,
    )
    with mosquitto(tmp_path, f"password_file {tmp_path}/passwords") as broker:
        wrong = announced(broker.url, {"COTENANT_MQTT_USER": "me", "COTENANT_MQTT_PASSWORD": "s3cret"})
        wrong.box.put("status", {"status": "running"})
        until(lambda: bool(wrong.said), "the refusal")
        told = wrong.finish_without_waiting()
        assert told.facts == {"published": 0, "dropped": 1, "reconnects": 0}
        assert not told.connected
        assert "Not authorized" in wrong.said[0]
        assert "s3cret" not in " ".join(wrong.said)
        right = announced(broker.url, {"COTENANT_MQTT_USER": "me", "COTENANT_MQTT_PASSWORD": "right"})
        assert right.announcer.finish({"status": "complete"}).published == 1


@contextlib.contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_a_broker_that_takes_the_connection_and_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "ANSWER_LIMIT_S", 0.3)
    with listening() as server:
        one = announced(f"mqtt://127.0.0.1:{server.getsockname()[1]}/lab")
        for number in range(1000):
            one.box.put("underrun", {"number": number})
        until(lambda: bool(one.said), "that it does not answer")
        assert "Operation timed out" in one.said[0]
        told = one.finish_without_waiting()
        assert told.facts == {"published": 0, "dropped": 1000, "reconnects": 0}
    assert not [thread for thread in threading.enumerate() if thread.name == "mqtt"]


def test_no_broker_at_all_costs_a_sentence(tmp_path: Path) -> None:
    with listening() as server:
        port = server.getsockname()[1]
    one = announced(f"mqtt://127.0.0.1:{port}/lab")
    one.box.put("status", {"status": "running"})
    until(lambda: bool(one.said), "that it is not there")
    assert one.said == [
        f"MQTT: 127.0.0.1:{port} cannot be reached (Connection refused); the run goes on, it is tried again"
    ]
    assert one.announcer.finish({"status": "complete"}).dropped == {"status": 1}


class SlowLine:
    """Hands on what goes to a broker in small pieces with a pause, what comes back at once."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._spawn(self._serve)

    def _spawn(self, work: Any, *args: Any) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                behind = socket.create_connection(("127.0.0.1", self._target))
                self._spawn(self._pass, client, behind, 400, 0.01)
                self._spawn(self._pass, behind, client, 65536, 0.0)

    def _pass(self, source: socket.socket, sink: socket.socket, size: int, pause_s: float) -> None:
        with source, contextlib.suppress(OSError):
            while data := source.recv(size):
                time.sleep(pause_s)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for thread in self._threads:
            thread.join(5)


def test_a_slow_broker_gets_all_in_order_and_no_put_waits_for_it(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as broker, subscribed(broker, "-q", "1") as subscriber:
        slow = SlowLine(broker.port)
        one = announced(f"mqtt://127.0.0.1:{slow.port}/lab")
        until(lambda: one.announcer.told().connected, "the connection")
        for number in range(300):
            one.box.put("underrun", {"number": number, "text": "x" * 300})
        assert one.announcer.told().published < 300  # all is put before all is sent
        told = one.announcer.finish({"status": "complete"}, 30)
        slow.close()
        until(lambda: bool(payloads(subscriber, "status")), "the last status")
        assert [message["number"] for message in payloads(subscriber, "underrun")] == list(range(300))
        assert told.facts == {"published": 301, "dropped": 0, "reconnects": 0}


KILLED = """
import sys, time
from tests.live.test_mosquitto import announced
one = announced(sys.argv[1])
one.box.put("status", {"status": "running"})
while not one.box.empty:
    time.sleep(0.01)
print("published", flush=True)
time.sleep(60)
"""


def test_the_last_will_of_a_process_that_was_killed(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as broker, subscribed(broker, "-q", "1") as subscriber:
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, broker.url], stdout=subprocess.PIPE, env=environ
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"published\n"
            process.send_signal(signal.SIGKILL)
        until(lambda: len(payloads(subscriber, "status")) == 2, "the last will")
        assert [message["status"] for message in payloads(subscriber, "status")] == ["running", "interrupted"]
        assert payloads(subscriber, "status")[1]["seq"] is None


# paho leaves the socket of a handshake that failed to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_tls_is_used_with_the_ca_that_is_named_and_refused_without(certificate: Path, tmp_path: Path) -> None:
    lines = [f"{what} {certificate}" for what in ("cafile", "certfile", "keyfile")]
    with mosquitto(tmp_path, *lines) as broker:
        url = broker.url.replace("mqtt:", "mqtts:")
        trusted = announced(url, {"COTENANT_MQTT_CA": str(certificate)})
        until(lambda: trusted.announcer.told().connected or bool(trusted.said), "the connection")
        assert trusted.said == []
        assert trusted.announcer.finish({"status": "complete"}).published == 1
        stranger = announced(url)
        said = stranger.said
        until(lambda: bool(said), "the refusal")
        assert "certificate verify failed" in said[0]
        assert stranger.announcer.finish({"status": "complete"}).published == 0
        del stranger
        gc.collect()


def test_a_hostile_run_id_stays_under_its_prefix(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as broker, subscribed(broker, "-q", "1") as subscriber:
        one = Announced(broker_from(broker.url, {}), "+/#/\0\u202e/../x")
        one.box.put("stage", {"name": "+/#/\0"})
        assert one.announcer.finish({"status": "complete"}).published == 2
        until(lambda: bool(payloads(subscriber, "status")), "the last status")
        topics = [topic for topic, _, _ in subscriber.lines() if topic != "lab/ready"]
        assert topics == ["lab/_______.._x/stage", "lab/_______.._x/status"]
