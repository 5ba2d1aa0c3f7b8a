"""An LLM server that tells everything it knows: its arguments and variables, in its log and in its errors."""

import base64
import os
import re
import sys
from collections.abc import Iterator
from urllib.parse import quote

from cotenant.testing import idle_llm


def writings(secret: str) -> Iterator[str]:
    """A secret as programs write it, apart from as it is."""
    in_url = quote(secret, safe="")
    yield in_url
    yield re.sub("%..", lambda found: found[0].lower(), in_url)
    yield secret.replace("/", "\\/")
    yield secret.replace("/", "\\u002f")
    yield f"{secret[:8]}\x1b[0m{secret[8:]}"
    yield f"{secret[:8]}\0{secret[8:]}"
    for text in (secret, f"me:{secret}", f"you:{secret}", f"user:{secret}"):
        yield base64.b64encode(text.encode()).decode().rstrip("=")
        yield base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


if __name__ == "__main__":
    print("arguments", sys.argv[1:], flush=True)  # noqa: T201
    print("variables", dict(os.environ), flush=True)  # noqa: T201
    for written in writings(os.environ["SOME_TOKEN"]):
        print("written", written, flush=True)  # noqa: T201
    sys.exit(idle_llm.main(sys.argv[1:3]))
