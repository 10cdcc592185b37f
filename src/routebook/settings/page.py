"""The page of all settings.

    python -m routebook.settings.page > docs/settings.md

A test holds the published page against the keys.
"""

import sys
from collections.abc import Iterable, Iterator

from routebook.settings.groups import (
    GatewaySettings,
    GuardSettings,
    LimitSettings,
    ListenSettings,
    LiveSettings,
    MemorySettings,
    Settings,
    TestClusterSettings,
    TlsSettings,
)
from routebook.settings.ignored import IGNORED
from routebook.settings.keys import Key, keys_of
from routebook.settings.sources import CONTROLLER

_HEAD = """\
# Settings

All settings of a node, with their defaults and what they may be.
[Operations](operations.md#settings) says where a node takes them from.
`python -m routebook.settings.page` writes this page.

`listenPort` is `listenPort=` in a properties file, `ROUTEBOOK_LISTEN_PORT` in the environment,
`--listen-port` on the command line and `listen_port` in Python.
"""
_SECTIONS = (
    ("Port", "", ListenSettings),
    ("Files and the network", "", Settings),
    ("Answers", "These are live: `mqadmin updateNamesrvConfig` can change them.", LiveSettings),
    ("Limits", "See [limits](limits.md).", LimitSettings),
    ("Journal and restart", "See [journal](journal.md).", MemorySettings),
    ("Guard", "See [guard](guard.md).", GuardSettings),
    (
        "Gateway",
        "See [gateway](gateway.md). Give tokens in a file or the environment: others see options.",
        GatewaySettings,
    ),
    ("TLS", "See [operations](operations.md#tls).", TlsSettings),
    (
        "Cluster-test mode",
        "See [operations](operations.md#cluster-test-mode).",
        TestClusterSettings,
    ),
)


def page() -> str:
    parts = [_HEAD]
    for title, more, group in _SECTIONS:
        parts.append("\n".join((f"## {title}", "", *_before(more), *_table(keys_of(group)), "")))
    ignored = ((key.name, _code(key.default), key.meaning) for key in (*IGNORED, CONTROLLER))
    lines = (
        "## Taken and not used",
        "",
        "Files of RocketMQ's NameServer may have these. They are shown, and named once at start.",
        "",
        *_rows(("key", "default", "why"), ignored),
    )
    return "\n".join((*parts, *lines, ""))


def _before(text: str) -> Iterator[str]:
    if text:
        yield text
        yield ""


def _table(keys: Iterable[Key]) -> Iterator[str]:
    cells = (
        (" or ".join(key.names), _code(key.default), key.kind.bounds, key.meaning) for key in keys
    )
    return _rows(("key", "default", "may be", "meaning"), cells)


def _rows(head: tuple[str, ...], cells: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in cells:
        yield f"| {' | '.join(row)} |"


def _code(text: str) -> str:
    return f"`{text}`" if text else "–"


if __name__ == "__main__":
    sys.stdout.write(page())
