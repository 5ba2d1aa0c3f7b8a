"""What no protocol can do yet or what a tenant's protocol and TLS settings contradict. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant.scenario.frames import frame_checks
from cotenant.scenario.values import AUTO
from cotenant.scenario.vllm import MODEL_SHAPES
from cotenant.scenario.yaml_text import Path

Found = tuple[Path, str]

# Words that are no protocol here, with what to do instead.
NOT_YET: Final[Mapping[tuple[str, str], str]] = {
    ("face", "webrtc"): "WebRTC is not spoken yet; let the head send its frames over a WebSocket "
    "(protocol: websocket) or as MJPEG over HTTP (protocol: mjpeg)",
}
_SECURE: Final = ("https://", "wss://")


def protocol_checks(tenant: Mapping[str, Any]) -> Iterator[Found]:
    """Every contradiction, as (path in the tenant, message)."""
    yield from frame_checks(tenant)
    yield from _tls(tenant)
    block = tenant.get("vllm")
    model = block.get("model", AUTO) if isinstance(block, Mapping) else None
    if tenant.get("protocol") == "chat" and (model in MODEL_SHAPES or model == AUTO):
        yield (
            ("protocol",),
            "a chat needs a tokenizer, and the models that ship with cotenant have none; use protocol: "
            "completions, or a real model",
        )


def _tls(tenant: Mapping[str, Any]) -> Iterator[Found]:
    url = tenant.get("url")
    for key in ("ca_file", "insecure"):
        if not tenant.get(key):
            continue
        if isinstance(url, str) and not url.startswith(_SECURE):
            yield (key,), f"there is no TLS at {url[:60]}; remove {key}, or write https:// if there is"
        elif url is None:
            yield (key,), f"{key} is for a server with an https address; remove it, or add url: https://..."
    if tenant.get("ca_file") and tenant.get("insecure"):
        yield ("insecure",), "it makes ca_file useless: any certificate is taken; keep ca_file alone"
