"""Sinks: where alerts go. Console, JSON lines, webhook.

Each is told the alerts of one trigger after the other, and may be told those of the last one again
after the process was killed. JSON lines have each of them once all the same, by id and state. The
webhook is called once or more; whoever receives it can tell by its Idempotency-Key.
"""

import fcntl
import http.client
import json
import logging
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol
from urllib.parse import urlsplit

from routebook.disk import new_file
from routebook.plain import json_text, one_line
from routebook_spark.errors import PipelineError

DEFAULT_FLEET = "default"  # that of nodes of which nobody said one

logger = logging.getLogger(__name__)

Alert = Mapping[str, Any]
"""A row of ``alerts`` as JSON has it: times are ISO 8601 in UTC."""


class Sink(Protocol):
    def tell(self, alerts: list[Alert]) -> None: ...

    def close(self) -> None: ...


def as_json(row: Mapping[str, Any]) -> Alert:
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        moment = value.astimezone(UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
    return value


class Console:
    """A line for each alert: when, how bad, what; or the same as JSON."""

    def __init__(self, out: IO[str], *, as_json: bool = False) -> None:
        self._out = out
        self._as_json = as_json

    def tell(self, alerts: list[Alert]) -> None:
        for alert in alerts:
            line = json_text(alert) if self._as_json else one_line(_line(alert))
            print(line, file=self._out, flush=True)

    def close(self) -> None:
        pass


def _line(alert: Alert) -> str:
    resolved = alert["state"] == "resolved"
    at = alert["resolved_at"] if resolved else alert["raised_at"]
    level = "resolved" if resolved else alert["severity"]
    fleet = "" if alert["fleet"] == DEFAULT_FLEET else f" in fleet {alert['fleet']}"
    return f"{at} {level} {alert['kind']} {alert['id']}{fleet}: {alert['sentence']}"


class FileInUse(PipelineError):
    """Another process appends to the same file."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"another watch writes alerts into {path}; name another file")
        self.path = path


class JsonLines:
    """Appends a line for each alert that is not in the file already, and syncs.

    Raises FileInUse. A line that a killed process had not finished is cut off.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise FileInUse(path) from error
        self._known: set[tuple[str, str]] = set()
        whole = 0
        self._file.seek(0)
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            self._known |= set(_named(line))
        self._file.truncate(whole)

    def tell(self, alerts: list[Alert]) -> None:
        new = {(alert["id"], alert["state"]): alert for alert in alerts}
        lines = [json_text(alert) + "\n" for name, alert in new.items() if name not in self._known]
        self._file.write("".join(lines).encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._known |= new.keys()

    def close(self) -> None:
        self._file.close()


def _named(line: bytes) -> Iterator[tuple[str, str]]:
    """Which alert a line is about; nothing for a line somebody else wrote."""
    try:
        alert = json.loads(line)
        yield alert["id"], alert["state"]
    except (ValueError, KeyError, TypeError):
        return


# -- webhook


class Outbox:
    """Alerts to be sent: a file each, named so that they sort by when they came.

    Beyond ``limit`` the oldest are given up. What the other end refused is in ``refused``.
    """

    def __init__(self, folder: Path, *, limit: int = 10_000) -> None:
        self._folder = folder
        self._refused = folder / "refused"
        self._limit = limit
        self._refused.mkdir(parents=True, exist_ok=True)
        for torn in folder.glob("*.part"):
            torn.unlink()

    @property
    def folder(self) -> Path:
        return self._folder

    def put(self, alerts: Iterable[Alert]) -> None:
        waiting = self.waiting()
        names = {_key(path) for path in waiting}
        for alert in alerts:
            key = f"{alert['id']}-{alert['state']}"
            if key not in names:
                path = self._folder / f"{time.time_ns():020}-{key}.json"
                with new_file(path, temporary=path.with_suffix(".part")) as file:
                    file.write(json.dumps(alert, ensure_ascii=False).encode())
                waiting.append(path)
        self._shrink(waiting)

    def waiting(self) -> list[Path]:
        """Oldest first."""
        return sorted(self._folder.glob("*.json"))

    def refuse(self, path: Path) -> None:
        path.rename(self._refused / path.name)
        for old in sorted(self._refused.glob("*.json"))[: -self._limit]:
            old.unlink(missing_ok=True)

    def _shrink(self, waiting: list[Path]) -> None:
        surplus = waiting[: max(len(waiting) - self._limit, 0)]
        for path in surplus:
            path.unlink(missing_ok=True)
        if surplus:
            logger.warning(
                "webhook: %d alerts were given up, more than %d wait in %s",
                len(surplus),
                self._limit,
                self._folder,
            )


def _key(path: Path) -> str:
    """Id and state, from the name of a file."""
    return path.stem.partition("-")[2]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Do not follow: a POST would arrive as a GET without its body."""
        return


_LATER = frozenset({408, 425, 429})  # and all from 500 on


class Webhook:
    """POSTs each alert as JSON, from a thread of its own, until it is taken.

    Trouble of any length delays nobody: alerts wait in the outbox, also for the next process.
    """

    def __init__(
        self,
        url: str,
        outbox: Outbox,
        *,
        timeout_s: float = 10.0,
        first_wait_s: float = 1.0,
        longest_wait_s: float = 60.0,
        closing_s: float = 10.0,
    ) -> None:
        self._url = url
        self._host = urlsplit(url).hostname or url  # the rest of it may be a secret
        self._outbox = outbox
        self._timeout_s = timeout_s
        self._first_wait_s = first_wait_s
        self._longest_wait_s = longest_wait_s
        self._closing_s = closing_s
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._failures = 0
        self._arrived = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self._thread.start()

    def tell(self, alerts: list[Alert]) -> None:
        self._outbox.put(alerts)
        self._arrived.set()

    def close(self) -> None:
        """Send what waits, for a few seconds; the rest is for the next time."""
        self._closing.set()
        self._arrived.set()
        self._thread.join(self._closing_s)
        left = len(self._outbox.waiting())
        if left:
            logger.warning(
                "webhook: %d alerts could not be sent to %s; they wait in %s for the next watch"
                " with this checkpoint",
                left,
                self._host,
                self._outbox.folder,
            )

    def _run(self) -> None:
        while True:
            self._arrived.clear()
            sent = self._send_all()
            if self._closing.is_set():
                return
            if sent:
                self._arrived.wait()
            else:
                waits_s = self._first_wait_s * 2.0 ** min(self._failures - 1, 30)
                self._closing.wait(min(waits_s, self._longest_wait_s))

    def _send_all(self) -> bool:
        """Whether nothing is left to be sent."""
        for path in self._outbox.waiting():
            try:
                body = path.read_bytes()
            except FileNotFoundError:
                continue  # given up meanwhile
            reason = self._post(path, body)
            if reason is not None:
                self._failures += 1
                if self._failures == 1:
                    logger.warning(
                        "webhook: %s does not take alerts (%s); they wait in %s",
                        self._host,
                        reason,
                        self._outbox.folder,
                    )
                return False
            if self._failures:
                logger.warning("webhook: %s takes alerts again", self._host)
            self._failures = 0
        return True

    def _post(self, path: Path, body: bytes) -> str | None:
        """Why it is to be tried again; None when it is done with."""
        request = urllib.request.Request(
            self._url,
            data=body,
            method="POST",
            headers={
                "Content-Type": "application/json",
                "Idempotency-Key": _key(path),
                "User-Agent": "routebook",
            },
        )
        try:
            with self._opener.open(request, timeout=self._timeout_s):
                pass
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in _LATER or error.code >= 500:
                return f"status {error.code}"
            logger.warning(
                "webhook: %s refused an alert with status %d; it is in %s",
                self._host,
                error.code,
                self._outbox.folder / "refused",
            )
            self._outbox.refuse(path)
            return None
        except (OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__
        path.unlink(missing_ok=True)
        return None
