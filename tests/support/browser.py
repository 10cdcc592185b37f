"""A real browser without a window: Chromium, told what to do over a pipe.

    with Browser() as browser:
        seen = browser.open(path, screenshot=tmp_path / "page.png")
    assert seen.errors == []

It has no network; whatever a page asks for beyond its own file is an error. So is everything the
page, or the browser about it, writes to the console as an error or warning, and every exception.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Any, Self

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_S = 60.0
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--remote-debugging-pipe",
)
_BAD_CONSOLE = ("error", "warning", "assert")
_BAD_LOG = ("error", "warning")

# Every heading, every plot that is drawn, how far the page sticks out of its window, and what of it
# cannot be read: what lies outside the window, what is longer than the box that hides the rest of
# it, and what is written beyond the edge of a plot.
_LOOK = """(() => {
  const shown = e => e.checkVisibility() && e.getClientRects().length > 0;
  const told = e => `${e.tagName.toLowerCase()} ${e.textContent.trim().slice(0, 40)}`;
  const cut = [];
  for (const e of document.body.querySelectorAll('*')) {
    if (!shown(e)) continue;
    const box = e.getBoundingClientRect();
    if (box.right > window.innerWidth + 1 || box.left < -1) cut.push('outside: ' + told(e));
    if (!e.closest('svg') && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0
        && getComputedStyle(e).display !== 'inline') cut.push('longer: ' + told(e));
    if (e.tagName === 'text') {
      const plot = e.closest('svg').getBoundingClientRect();
      if (box.left < plot.left - 1 || box.right > plot.right + 1
          || box.top < plot.top - 1 || box.bottom > plot.bottom + 1) cut.push('plot: ' + told(e));
    }
  }
  return JSON.stringify({
  title: document.title,
  cut: cut,
  headings: [...document.querySelectorAll('h1, h2, h3')].map(e => e.textContent),
  plots: [...document.querySelectorAll('svg[role=img]')].filter(shown).map(e => ({
    name: e.querySelector('title').textContent,
    width: Math.round(e.getBoundingClientRect().width),
    height: Math.round(e.getBoundingClientRect().height),
    shapes: e.querySelectorAll('path, use, rect, text').length})),
  scripts: document.scripts.length,
  images: document.images.length,
  anchors: [...document.querySelectorAll('nav a')].map(
    a => document.getElementById(a.hash.slice(1)) !== null),
  overflow: document.documentElement.scrollWidth - window.innerWidth,
  background: getComputedStyle(document.body).backgroundColor})})()"""


@dataclass
class Seen:
    """``document`` is what a page has in it; ``errors`` what went wrong, in words."""

    errors: list[str] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)
    pdf: bytes = b""


class Browser:
    """Raises FileNotFoundError when there is none; TimeoutError when it does not answer."""

    def __init__(self) -> None:
        program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
        if program is None:
            raise FileNotFoundError(f"none of {', '.join(PROGRAMS)} is installed")
        self._program = program
        self._last_id = 0
        self._events: deque[dict[str, Any]] = deque()
        self._unread = b""

    def __enter__(self) -> Self:
        self._profile = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        redirect = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            [
                "bash",
                "-c",
                redirect,
                self._program,
                *_FLAGS,
                f"--user-data-dir={self._profile.name}",
            ],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._to)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)
        self._profile.cleanup()

    def open(
        self,
        page: Path,
        *,
        screenshot: Path | None = None,
        width: int = 1280,
        dark: bool = False,
        pdf: bool = False,
    ) -> Seen:
        """What is to be seen of a page that has been loaded, and of all of it in a picture."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

        def ask(method: str, **parameters: Any) -> dict[str, Any]:
            return self.ask(method, session, **parameters)

        for domain in ("Page", "Runtime", "Log", "Network"):
            ask(f"{domain}.enable")
        ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        ask("Emulation.setEmulatedMedia", features=[scheme])
        ask("Page.navigate", url=page.resolve().as_uri())
        events = self._until("Page.loadEventFired", session)
        looked = ask("Runtime.evaluate", expression=_LOOK, returnByValue=True)
        seen = Seen(document=json.loads(looked["result"].get("value", "{}")))
        if screenshot is not None:
            shot = ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
            screenshot.write_bytes(base64.b64decode(shot["data"]))
        if pdf:
            printed = ask("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
            seen.pdf = base64.b64decode(printed["data"])
        events += [event for event in self._events if event.get("sessionId") == session]
        seen.errors = [text for event in events if (text := _wrong(event, page)) is not None]
        self.ask("Target.closeTarget", targetId=target)
        self._events.clear()
        return seen

    # -- the pipe: JSON, each ended by a zero byte

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Events that come before the answer are kept, for ``taken``."""
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") != self._last_id:
                self._events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer.get("result") or {}

    def taken(self, session: str) -> list[dict[str, Any]]:
        """What happened to a tab since this was asked last."""
        mine = [event for event in self._events if event.get("sessionId") == session]
        self._events = deque(each for each in self._events if each.get("sessionId") != session)
        return mine

    def _until(self, method: str, session: str) -> list[dict[str, Any]]:
        """Events of the page up to and with the one named."""
        passed = []
        while True:
            event = self._events.popleft() if self._events else self._next()
            if event.get("sessionId") == session:
                passed.append(event)
                if event.get("method") == method:
                    return passed

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._unread:
            ready, _, _ = select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the browser said nothing for {TIMEOUT_S:.0f} s")
            part = os.read(self._from, 1 << 20)
            if not part:
                raise ConnectionError("the browser ended")
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


def _wrong(event: dict[str, Any], page: Path) -> str | None:
    if event.get("method") == "Network.requestWillBeSent":
        url = event["params"]["request"]["url"]
        return None if url == page.resolve().as_uri() else f"request: {url}"
    return complaint(event)


def complaint(event: dict[str, Any]) -> str | None:
    """What a page, or the browser about it, complained of; None: nothing."""
    method, told = event.get("method"), event.get("params", {})
    if method == "Runtime.exceptionThrown":
        details = told["exceptionDetails"]
        return f"exception: {details.get('exception', {}).get('description', details['text'])}"
    if method == "Runtime.consoleAPICalled" and told["type"] in _BAD_CONSOLE:
        values = [str(arg.get("value", arg.get("description"))) for arg in told["args"]]
        return f"console {told['type']}: {' '.join(values)}"
    if method == "Log.entryAdded" and told["entry"]["level"] in _BAD_LOG:
        return f"{told['entry']['level']}: {told['entry']['text']}"
    return None
