"""The built-in voice behind its front: recorded speech in the packets of an engine with random weights."""

from collections.abc import Callable

from cotenant.resources import data_dir
from cotenant.tenants.builtin.answers import SampleFormat, Spoken
from cotenant.tenants.builtin.json_errors import bad_request
from cotenant.tenants.builtin.mailbox import Mailbox
from cotenant.tenants.builtin.packets import PacketPolicy
from cotenant.tenants.builtin.recordings import RATE_HZ, Recordings, Samples
from cotenant.tenants.builtin.speech_http import Said
from cotenant.tenants.builtin.step_loop import StepLoop
from cotenant.tenants.builtin.tts import TtsEngine, Utterance


class RecordedVoice:
    """What is said are recordings; when it is said, the engine's work decides."""

    format: tuple[int, SampleFormat] | None = (RATE_HZ, "s16")

    def __init__(self, loop: StepLoop[TtsEngine], packets: PacketPolicy, model: str) -> None:
        self.model = model
        self._loop, self._packets = loop, packets
        self._recordings = Recordings(data_dir("fixtures"))

    def speak(self, text: str, voice: str | None, out: Mailbox[Said]) -> Callable[[], None]:
        """Begins an utterance; every voice is the same one. No client holds the engine's steps up: what one
        leaves unread is an utterance at most."""
        samples = self._recordings.speech_for(text)
        limit = self._loop.engine.frames_limit * self._loop.engine.samples_per_frame
        if len(samples) > limit:
            raise bad_request(
                f"this text takes {len(samples) / RATE_HZ:.0f} s; the limit is {limit // RATE_HZ} s"
            )

        def packet(part: Samples | None) -> None:
            out.put(None if part is None else Spoken(data=part.tobytes(), rate_hz=RATE_HZ))

        utterance = Utterance(text=text, samples=samples, packets=self._packets, send=packet)
        self._loop.post(lambda engine: engine.add(utterance))
        return lambda: self._loop.drop(utterance)
