"""An LLM server that tells everything it knows: its arguments and variables, in its log and in its errors."""

import os
import sys

from cotenant.testing import idle_llm

if __name__ == "__main__":
    print("arguments", sys.argv[1:], flush=True)  # noqa: T201
    print("variables", dict(os.environ), flush=True)  # noqa: T201
    sys.exit(idle_llm.main(sys.argv[1:3]))
