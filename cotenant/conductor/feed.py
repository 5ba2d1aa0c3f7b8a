"""A run as it is published: its directory is followed from a thread, what happens there announced."""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from cotenant.conductor.context import Run
from cotenant.conductor.follow import Follower
from cotenant.conductor.plan import windows
from cotenant.errors import CotenantError
from cotenant.live.broker import Broker
from cotenant.live.mqtt import Announcer, Told
from cotenant.live.outbox import Outbox, time_text
from cotenant.playback.player import PlayerOptions
from cotenant.run_dir import manifest
from cotenant.scenario.schema import Voices
from cotenant.units import NS_PER_MS, counted

_LOOK_S: Final = 0.5
_LOOKS_PER_METRICS: Final = 2
_JOIN_LIMIT_S: Final = 5.0


class Feed:
    """One run on a broker: `begin` when its directory is there, `end` when all is said; both are cheap.

    Nothing that goes wrong here ends or delays a run: it is told in a sentence.
    """

    def __init__(self, broker: Broker, say: Callable[[str], None]) -> None:
        self._broker, self._say = broker, say
        self._outbox = Outbox(time.time_ns)
        self._announcer: Announcer | None = None
        self._follower: Follower | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._running: dict[str, Any] = {}
        self._run_dir: Path | None = None

    def begin(self, run: Run) -> None:
        """Announces a run, and follows it from now on."""
        scenario, self._run_dir = run.scenario, run.run_dir
        self._running = {
            "run_id": run.run_id,
            "status": "running",
            "scenario": scenario.name,
            "device": run.device.name,
            "lookahead_ms": scenario.lookahead_ns / NS_PER_MS,
            "planned": len(windows(scenario)),
        }
        offset_ns = run.manifest["anchor"]["wall_ns"] - run.manifest["anchor"]["mono_ns"]
        self._follower = Follower(
            run.run_dir,
            PlayerOptions(
                lookahead_ns=scenario.lookahead_ns,
                start=scenario.player.start,
                after_underrun=scenario.player.after_underrun,
                quantum_ns=scenario.player.quantum_ns,
            ),
            wall=lambda t_ns: time_text(t_ns + offset_ns),
            put=self._outbox.put,
            now_ns=time.monotonic_ns,
            pauses_ns={
                name: load.pause_ns for name, load in scenario.load.items() if isinstance(load, Voices)
            },
        )
        self._outbox.put("status", self._running)
        self._announcer = Announcer(
            self._broker, run.run_id, self._outbox, tell=run.progress.line, on_reconnect=self._again
        )
        self._thread = threading.Thread(
            target=self._follow, args=(self._follower,), name="follow", daemon=True
        )
        self._thread.start()

    def _again(self) -> None:
        """What is retained, once more: a broker may have told the last will, or have forgotten."""
        self._outbox.put("status", self._running)
        if self._follower is not None and self._follower.stage is not None:
            self._outbox.put("stage", self._follower.stage)

    def _follow(self, follower: Follower) -> None:
        looks = 0
        try:
            while not self._over.wait(_LOOK_S):
                follower.look()
                looks += 1
                if looks % _LOOKS_PER_METRICS == 0:
                    follower.metrics()
            follower.look()  # what was written last
        except Exception as error:  # noqa: BLE001 - the run goes on without
            self._say(f"MQTT: the run cannot be followed any more ({type(error).__name__}: {error})")

    def recorded(self) -> None:
        """Nothing is written any more: publishes what was written last."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(_JOIN_LIMIT_S)

    def verdict(self, summary: Mapping[str, Any], word: str, exit_code: int) -> None:
        """Publishes what a judged run came to."""
        self.recorded()
        self._outbox.put(
            "verdict",
            {
                "run_id": summary["run_id"],
                "word": word,
                "verdict": summary["verdict"],
                "validity": summary["validity"],
                "exit_code": exit_code,
                "stages": [_stage(entry) for entry in summary["stages"]],
            },
        )

    def end(self, status: str) -> None:
        """Publishes the last status, for seconds at most; the counts go into manifest.json and are said."""
        self.recorded()
        if self._announcer is None or self._run_dir is None:
            return
        left_out = 0
        with contextlib.suppress(CotenantError):
            left_out = len(manifest.read(self._run_dir).get("not_run", ()))
        last = {"run_id": self._running["run_id"], "status": status, "not_run": left_out}
        told = self._announcer.finish(last)
        with contextlib.suppress(OSError):
            manifest.write(self._run_dir, {**manifest.read(self._run_dir), "mqtt": told.facts})
        self._say(_sentence(told, self._broker.name, self._announcer.topic))


def _stage(entry: Mapping[str, Any]) -> dict[str, Any]:
    from cotenant.report.table import verdict_word  # when the run is over: it takes the verdict with it

    speech = entry.get("speech") or {}
    figures = {name: speech.get(name) for name in ("streams", "underruns", "clean_share")}
    why = (entry.get("why") or {}).get("verdict")
    verdict = {
        "word": verdict_word(entry), "verdict": entry["verdict"], "validity": entry["validity"], "why": why,
    }  # fmt: skip
    return {"name": entry["name"], **verdict, **figures}


def _sentence(told: Told, broker: str, topic: str) -> str:
    if not told.connected:
        return f"mqtt   {broker} was never reached: {counted(told.facts['dropped'], 'message')} dropped"
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(told.dropped.items()))
    dropped = f"{told.facts['dropped']} dropped{f' ({kinds})' if kinds else ''}"
    reconnects = counted(told.reconnects, "reconnect")
    return f"mqtt   {broker} {topic}: {told.published} published, {dropped}, {reconnects}"
