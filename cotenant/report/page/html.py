"""The page as one self-contained HTML file: a template filled with styles, scripts and data."""

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_PLACE: Final = re.compile(r"<!--cotenant:([a-z]+)(?: ([A-Za-z0-9._-]+))?-->")
# No `unsafe-eval`: plotly's charts need none. Plotly sets styles from its script.
_POLICY: Final = (
    "default-src 'none'",
    "style-src 'unsafe-inline'",
    "img-src data: blob:",
    "media-src data: blob:",
    "connect-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The text of the template, of the styles and scripts that it names, and of plotly's script."""

    page: str
    files: Mapping[str, str]
    plotly: str


def render(template: Template, *, title: str, fallback: str, data: Mapping[str, Any]) -> str:
    """The whole file. `fallback` is HTML; `title` is plain text.

    Raises ValueError for a template with an unknown place, or one that names a file that is missing.
    """
    scripts = [_script(template, match) for match in _PLACE.finditer(template.page)]
    hashes = [f"'{_hash(text)}'" for text in scripts if text is not None]
    policy = "; ".join(
        [*_POLICY[:1], "script-src " + " ".join(dict.fromkeys(hashes or ["'none'"])), *_POLICY[1:]]
    )
    pieces = {
        "csp": f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">',
        "title": escape(title),
        "fallback": fallback,
        "data": f'<script type="application/json" id="data">{packed(data)}</script>',
    }

    def fill(match: re.Match[str]) -> str:
        what, name = match.groups()
        if what in pieces and name is None:
            return pieces[what]
        if what == "style":
            return f"<style>{_safe_style(_file(template, name))}</style>"
        text = _script(template, match)
        if text is None:
            raise ValueError(f"the template has an unknown place {match.group(0)!r}")
        return f"<script>{text}</script>"

    return _PLACE.sub(fill, template.page)


def escape(text: object) -> str:
    """Text as it may stand in HTML, in an attribute too."""
    return html.escape(str(text).encode("utf-8", "replace").decode("utf-8"), quote=True)


def packed(data: Mapping[str, Any]) -> str:
    """The data as the page holds it; the same data gives the same text. Raises ValueError for NaN."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).encode()
    inside = base64.b64encode(gzip.compress(text, 9, mtime=0)).decode()
    return json.dumps({"encoding": "gzip+base64", "data": inside}, separators=(",", ":"))


def _script(template: Template, match: re.Match[str]) -> str | None:
    what, name = match.groups()
    if what == "plotly":
        return _safe_script(template.plotly)
    return _safe_script(_file(template, name)) if what == "script" else None


def _file(template: Template, name: str | None) -> str:
    if name is None or name not in template.files:
        raise ValueError(f"the template names {name!r}, which is not there")
    return template.files[name]


def _safe_script(text: str) -> str:
    """The same program, which cannot end the element it stands in: neither is code outside a string or a
    regular expression, where the escape means the same."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"<(?=/script|!--)", r"\\x3c", text, flags=re.IGNORECASE)


def _safe_style(text: str) -> str:
    return re.sub(r"</(?=style)", r"<\\/", text, flags=re.IGNORECASE)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
