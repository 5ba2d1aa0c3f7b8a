"""Whom to trust over TLS: the system's certificates, those of a file besides, or anybody."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from cotenant.errors import UserError

_SECURE: Final = {"https": 443, "wss": 443}


def context(ca_file: str | None = None, *, insecure: bool = False) -> ssl.SSLContext:
    """A client's context. `insecure` takes any certificate. Raises UserError for a file that has none."""
    try:
        made = ssl.create_default_context()
        if ca_file is not None:
            made.load_verify_locations(cafile=ca_file)
    except OSError as error:
        # An SSLError is an OSError whose text is OpenSSL's.
        missing = not isinstance(error, ssl.SSLError) and error.strerror
        reason = missing or "it has no certificate in PEM form"
        raise UserError(
            f"ca_file {ca_file}: {reason}; name a PEM file that has the certificate of the server's authority"
        ) from None
    if insecure:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made


def origin(url: str) -> tuple[str, int] | None:
    """Host and port of an address that is spoken to over TLS, None for others."""
    parts = urlsplit(url)
    if parts.scheme not in _SECURE:
        return None
    return parts.hostname or "", parts.port or _SECURE[parts.scheme]


@dataclass(slots=True, kw_only=True)
class Trust:
    """The context for each origin; made when it is first needed."""

    own: Mapping[tuple[str, int], ssl.SSLContext]
    usual: ssl.SSLContext | None = None

    def of(self, url: str) -> ssl.SSLContext | None:
        """None for an address without TLS."""
        place = origin(url)
        if place is None:
            return None
        if place in self.own:
            return self.own[place]
        if self.usual is None:
            self.usual = context()
        return self.usual
