"""Where a run is published: the broker's address, user and CA, checked before anything starts."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from cotenant.errors import UserError
from cotenant.plain import is_plain

USER_ENV: Final = "COTENANT_MQTT_USER"
PASSWORD_ENV: Final = "COTENANT_MQTT_PASSWORD"
CA_ENV: Final = "COTENANT_MQTT_CA"
DEFAULT_PREFIX: Final = "cotenant"

_PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
_LIKE: Final = "mqtt://HOST[:PORT][/PREFIX], or mqtts:// for TLS"
_PREFIX_LIMIT_BYTES: Final = 1024
# What a topic that is published to cannot hold.
_FORBIDDEN: Final = "+#\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """`prefix` is the topic that everything lies under, `tls` None where the line is not encrypted."""

    host: str
    port: int
    prefix: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None

    @property
    def name(self) -> str:
        """`host:port`, for people."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def broker_from(url: str, environ: Mapping[str, str]) -> Broker:
    """The broker that `url` and the environment name. Raises UserError, which never repeats the address.

    A password has its place in the environment: an address is seen in lists of processes and in logs.
    """
    parts, port = _split(url)
    if parts.username is not None or parts.password is not None:
        raise UserError(
            f"--mqtt takes no user or password in the address, where others can read it; "
            f"set {USER_ENV} and {PASSWORD_ENV}"
        )
    if parts.scheme not in _PORTS or not parts.hostname:
        raise UserError(f"--mqtt takes an address like {_LIKE}")
    if parts.query or "#" in url:
        raise UserError("--mqtt: a topic prefix cannot hold '#' or '?'")
    user, password = environ.get(USER_ENV) or None, environ.get(PASSWORD_ENV) or None
    if password is not None and user is None:
        raise UserError(f"{PASSWORD_ENV} is set, but {USER_ENV} is not; MQTT has no password without a user")
    return Broker(
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        prefix=_prefix(parts.path),
        user=user,
        password=password,
        tls=_tls(parts.scheme, environ.get(CA_ENV)),
    )


def topic_level(text: str) -> str:
    """`text` as one level of a topic: `_` for the wildcards `+` and `#`, for `/` and what is not shown."""
    cleaned = "".join("_" if c in "+#/" or not is_plain(c) else c for c in text)
    # Topics that begin with a dollar sign are the broker's own.
    return "_" + cleaned[1:] if cleaned.startswith("$") else cleaned or "_"


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        # What cannot be shown is dropped there without a word: the topic would be another one than asked for.
        if parts.port == 0 or not all(map(is_plain, url)):
            raise ValueError
        return parts, parts.port
    except ValueError:
        # What is wrong is not told in its own words: they may repeat a password.
        raise UserError(f"--mqtt takes an address like {_LIKE}") from None


def _prefix(path: str) -> str:
    prefix = unquote(path, errors="surrogateescape").strip("/")
    if not prefix:
        return DEFAULT_PREFIX
    if prefix.startswith("$") or any(c in _FORBIDDEN or not is_plain(c) for c in prefix):
        raise UserError(
            "--mqtt: a topic prefix cannot begin with '$', nor hold '+', '#' or what cannot be printed"
        )
    if len(prefix.encode()) > _PREFIX_LIMIT_BYTES:
        raise UserError(f"--mqtt: a topic prefix is at most {_PREFIX_LIMIT_BYTES} bytes long")
    return prefix


def _tls(scheme: str, ca: str | None) -> ssl.SSLContext | None:
    if scheme != "mqtts":
        if ca:
            raise UserError(
                f"{CA_ENV} is set, but the address of --mqtt begins with mqtt://; TLS needs mqtts://"
            )
        return None
    try:
        return ssl.create_default_context(cafile=ca or None)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{CA_ENV} names no file of CA certificates: {ca}: {why}") from None
