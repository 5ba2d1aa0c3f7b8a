"""What `simulate` says of one face beside its voice."""

from typing import Any, Final

from cotenant.playback.arrivals import PLUS_INF_NS
from cotenant.playback.face import FacePlayback
from cotenant.units import NS_PER_MS

NO_PICTURE: Final = "no picture was shown"
SHORT_CLIP: Final = "the clip is shorter than 1 s"


def face_entry(face: FacePlayback, why: dict[str, str]) -> dict[str, Any]:
    """One face as `simulate --json` has it; reasons of what is null go to `why`, as `face.KEY`."""

    def known(key: str, value: float | None, reason: str) -> float | None:
        if value is None:
            why[f"face.{key}"] = reason
        return value

    unseen = NO_PICTURE if face.began else "the voice never played"
    sync = face.sync
    first_ns = None if face.first_frame_ns >= PLUS_INF_NS else face.first_frame_ns
    skew = {name: None if sync is None else getattr(sync, f"{name}_ns") for name in ("p5", "p50", "p95")}
    outside = {
        name: None if sync is None else getattr(sync, f"outside_{name}") for name in ("detect", "accept")
    }
    return {
        "frames": face.frames,
        "dropped": face.dropped,
        "late": face.late,
        "first_frame_ms": known("first_frame_ms", None if first_ns is None else _ms(first_ns), "+inf"),
        "fps_min": known("fps_min", face.fps_min, SHORT_CLIP if face.began else unseen),
        "fps_p5": known("fps_p5", face.fps_p5, SHORT_CLIP if face.began else unseen),
        "harmonic_fps": known("harmonic_fps", face.harmonic_fps, unseen),
        "freezes": known("freezes", len(face.freezes) if face.shown_ns.size else None, unseen),
        "freezes_by_spec": known(
            "freezes_by_spec", len(face.freezes_spec) if face.shown_ns.size else None, unseen
        ),
        "skew_ms": {
            name: known(f"skew_ms.{name}", None if value is None else _ms(value), unseen)
            for name, value in skew.items()
        },
        "skew_outside": {
            name: known(f"skew_outside.{name}", value, unseen) for name, value in outside.items()
        },
    }


def _ms(value_ns: int) -> float:
    return value_ns / NS_PER_MS
