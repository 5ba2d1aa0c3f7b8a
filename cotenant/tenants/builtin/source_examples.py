"""What a user's own generator gets and gives, with a whole one of each kind: for help and messages. Pure."""

from typing import Final

GETS: Final = {
    "speech": "text and voice are what was asked for (voice may be None); yield samples as they are made: "
    "int16 or float arrays, tensors, bytes or a WAV, or (samples, rate)",
    "face": "audio is an iterator of int16 arrays, 16 kHz mono, of any length, which waits for the next one "
    "while the voice speaks and ends with it; fps is a whole number; yield a picture for each 1/fps s: JPEG "
    "bytes, a (height, width, 3) array of uint8, or a PIL image",
}
EXAMPLES: Final = {
    "speech": """\
import numpy as np  # my_voice.py
def generate(text, voice):
    for word in text.split():
        seconds = np.arange(24000 * len(word) // 15) / 24000
        yield 0.3 * np.sin(2 * np.pi * 220 * seconds), 24000
""",
    "face": """\
import numpy as np  # my_head.py
def generate(audio, fps):
    heard = drawn = 0
    for samples in audio:
        heard += len(samples)
        loud = np.abs(samples.astype(int)).max() // 129
        while drawn * 16000 < heard * fps:
            drawn += 1
            yield np.full((256, 256, 3), loud, np.uint8)
""",
}
FILES: Final = {"speech": "my_voice", "face": "my_head"}


def written_so(kind: str) -> str:
    """The end of a message: what it gets, and one that does."""
    lines = "".join(f"\n  {line}" for line in EXAMPLES[kind].splitlines())
    return f"{GETS[kind]}; as in\n{lines}"
