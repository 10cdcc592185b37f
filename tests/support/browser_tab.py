"""Tab: one tab of a Browser that stays open, looks at an address of this machine, and is used."""

import base64
from pathlib import Path
from typing import Any, Self

from support.browser import Browser, complaint
from support.waiting import wait_for

_KEYS = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, "Tab": 9}
_SHIFT = 8

# What cannot be read: outside the window, or longer than the box that hides the rest of it.
_CUT = """(() => {
  const cut = [];
  for (const e of document.body.querySelectorAll('*')) {
    if (!e.checkVisibility() || !e.getClientRects().length) continue;
    if (e.closest('.hidden-text, svg')) continue;
    const box = e.getBoundingClientRect();
    const told = `${e.tagName.toLowerCase()}.${e.className} ${e.textContent.trim().slice(0, 40)}`;
    if (box.right > document.documentElement.clientWidth + 1 || box.left < -1)
      cut.push(`outside: ${told}`);
    if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && e.tagName !== 'INPUT'
        && getComputedStyle(e).display !== 'inline') cut.push(`longer: ${told}`);
  }
  return cut;
})()"""


class Tab:
    def __init__(
        self, browser: Browser, *, width: int = 1280, height: int = 900, dark: bool = False
    ) -> None:
        self._browser = browser
        self._target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.ask("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session: str = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")
        self.shape(width=width, height=height, dark=dark)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.ask(method, self._session, **parameters)

    def close(self) -> None:
        self._browser.ask("Target.closeTarget", targetId=self._target)

    def shape(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])

    def go(self, url: str) -> None:
        self._ask("Page.navigate", url=url)

    def before(self, script: str) -> None:
        """Run it in every page before anything of its own."""
        self._ask("Page.addScriptToEvaluateOnNewDocument", source=script)

    def look(self, expression: str) -> Any:
        """The value of an expression in the page; promises are awaited. Raises AssertionError."""
        answer = self._ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self, selector: str = "body") -> str:
        """What is to be read there; "" where there is no such element."""
        return str(self.look(f"document.querySelector({selector!r})?.innerText ?? ''"))

    def shows(self, text: str, selector: str = "body") -> str:
        """Wait until it can be read."""
        return wait_for(
            f"{text!r} in {selector}", lambda: self.text(selector), until=lambda all: text in all
        )

    def becomes(self, what: str, expression: str) -> Any:
        """Wait until ``expression`` is true in the page; its value."""
        return wait_for(what, lambda: self.look(expression))

    def press(self, key: str, *, shift: bool = False) -> None:
        code = _KEYS.get(key, ord(key[0].upper()))
        stroke = {"key": key, "windowsVirtualKeyCode": code, "modifiers": _SHIFT if shift else 0}
        text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        self._ask("Input.dispatchKeyEvent", type="keyDown", **stroke, **text)
        self._ask("Input.dispatchKeyEvent", type="keyUp", **stroke)

    def write(self, text: str) -> None:
        self._ask("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        self.becomes(f"{selector} to be there", f"document.querySelector({selector!r}) !== null")
        self.look(f"document.querySelector({selector!r}).click()")

    def offline(self, yes: bool) -> None:
        self._ask("Network.enable")
        self._ask(
            "Network.emulateNetworkConditions",
            offline=yes,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )

    def cut(self) -> list[str]:
        """What of the page cannot be read in this window."""
        return list(self.look(_CUT))

    def picture(self, path: Path) -> None:
        """Of what is in the window, in the format of the name."""
        shot = self._ask("Page.captureScreenshot", format=path.suffix[1:], quality=85)
        path.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self, *, network: bool = False) -> list[str]:
        """Errors and warnings since last asked; those of the ``network`` only where wanted."""
        found = []
        for event in self._browser.taken(self._session):
            entry = event.get("params", {}).get("entry", {})
            if entry.get("source") == "network" and not network:
                continue
            if (text := complaint(event)) is not None:
                found.append(text)
        return found
