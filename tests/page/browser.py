"""A headless Chromium of this machine, driven through its DevTools pipe: no port, no driver, no package."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--no-default-browser-check", "--mute-audio", "--hide-scrollbars", "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
LIMIT_S: Final = 60.0
KEYS: Final = {
    "Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, None), "Tab": ("Tab", 9, None),
    " ": ("Space", 32, " "), "ArrowDown": ("ArrowDown", 40, None), "ArrowUp": ("ArrowUp", 38, None),
    "ArrowLeft": ("ArrowLeft", 37, None), "ArrowRight": ("ArrowRight", 39, None),
    "Home": ("Home", 36, None), "End": ("End", 35, None), "PageDown": ("PageDown", 34, None),
}  # fmt: skip


def chromium() -> str | None:
    """The path of a Chromium, or None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class PageError(Exception):
    """The script that was evaluated in the page raised, or the browser refused a command."""


class Page:
    """One tab. `complaints`: console errors, exceptions, blocked loads; `asked`: each URL asked for."""

    def __init__(self, write_fd: int, read_fd: int) -> None:
        self._write_fd, self._read_fd = write_fd, read_fd
        self._left, self._next, self._session, self._context = b"", 0, "", ""
        self.complaints: list[str] = []
        self.asked: list[str] = []

    def attach(self) -> None:
        """A new tab that knows nothing of those before: no storage, no complaints."""
        self.complaints, self.asked = [], []
        self._context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=self._context)[
            "targetId"
        ]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def detach(self) -> None:
        """Closes the tab."""
        self._session = ""
        self.call("Target.disposeBrowserContext", browserContextId=self._context)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A command of the DevTools protocol; returns its result. Raises PageError where it is refused."""
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write_fd, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise PageError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + LIMIT_S
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._read_fd], [], [], max(0.0, until - time.monotonic()))
            part = os.read(self._read_fd, 1 << 20) if ready else b""
            if not part:
                raise PageError("the browser is gone or does not answer")
            self._left += part
        line, self._left = self._left.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        if message.get("sessionId") == self._session:
            self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"])[:2000])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(params["args"])[:2000])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.asked.append(str(params["request"]["url"])[:200])

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page, promises awaited."""
        told = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            raise PageError(json.dumps(told["exceptionDetails"])[:2000])
        return told["result"].get("value")

    def cpu_ms(self) -> float:
        """CPU time that the page's main thread has spent on its tasks: a busy machine adds nothing to it."""
        self.call("Performance.enable", timeDomain="threadTicks")
        metrics = self.call("Performance.getMetrics")["metrics"]
        return 1000 * float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    def open(self, path: Path, fragment: str = "") -> None:
        """Loads a file and waits until its data is shown."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=path.as_uri() + (f"#{fragment}" if fragment else ""))
        self.wait("document.documentElement.dataset.ready && document.readyState === 'complete'")

    def wait(self, condition: str, limit_s: float = 30.0) -> None:
        """Returns once the expression is true, asked for at each frame of the page."""
        script = (
            "new Promise((done) => { const until = performance.now() + %d;"
            "const look = () => { if (%s) done(true); else if (performance.now() > until) done(false);"
            "else setTimeout(look, 15); }; look(); })"
        )
        until = time.monotonic() + limit_s
        while True:
            with suppress(PageError):  # the page may be between two documents
                if self.evaluate(script % (1000 * limit_s, condition)):
                    return
            if time.monotonic() > until:
                raise PageError(f"never true: {condition}; {self.complaints}")

    def reach(self, condition: str, limit_s: float = 30.0) -> None:
        """As `wait`, for a page whose own scripts and timers are off."""
        until = time.monotonic() + limit_s
        while True:
            with suppress(PageError):
                if self.evaluate(condition):
                    return
            if time.monotonic() > until:
                raise PageError(f"never true: {condition}")

    def press(self, key: str) -> None:
        code, number, text = KEYS[key]
        event = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.call("Input.dispatchKeyEvent", **event, **down)
        self.call("Input.dispatchKeyEvent", **event, type="keyUp")

    def click(self, selector: str) -> None:
        """A real click on the middle of the first element that matches."""
        place = self.evaluate(
            f"(() => {{ const node = document.querySelector({json.dumps(selector)});"
            "node.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const box = node.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        at = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", **at)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **at)

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False, media: str = "") -> None:
        """The size of the window, the person's colour scheme, and the medium."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        calm = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme, calm])

    def screenshot(self, path: Path | None = None, *, whole: bool = False) -> bytes:
        """A PNG of the window, or of the whole page."""
        data = base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])
        if path is not None:
            path.write_bytes(data)
        return data


@contextmanager
def browser() -> Iterator[Page]:
    """A Chromium with a profile of its own, and no tab yet; both are gone at the end."""
    path = chromium()
    if path is None:
        raise PageError("no Chromium: apt-get install chromium")
    their_read, my_write = os.pipe()
    my_read, their_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The browser wants exactly the descriptors 3 and 4.
        shell = f'exec "$@" 3<&{their_read} 4>&{their_write}'
        process = subprocess.Popen(
            ["bash", "-c", shell, "bash", path, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(their_read, their_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(their_read)
        os.close(their_write)
        try:
            yield Page(my_write, my_read)
        finally:
            os.close(my_write)  # the end of the pipe tells the browser to end
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
            os.close(my_read)
