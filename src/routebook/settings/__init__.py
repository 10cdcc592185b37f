"""Settings: every key a node knows, where its value came from, and small frozen types of them.

Names are RocketMQ's own (``listenPort``) and are spelt the same way everywhere: ``listenPort=``
in a properties file, ``--listen-port`` on the command line, ``ROUTEBOOK_LISTEN_PORT`` in the
environment. Sources, each overriding the ones before it:

    defaults, the -c file, updates made by mqadmin (318), the environment, the command line

A key is declared once, in ``groups`` (or ``ignored``): name, field, default, what it may be and
what it means.
"""

from routebook.settings.errors import SettingsError
from routebook.settings.groups import (
    GuardSettings,
    LimitSettings,
    ListenSettings,
    LiveSettings,
    MemorySettings,
    Settings,
    TestClusterSettings,
    TlsSettings,
)
from routebook.settings.keys import Key
from routebook.settings.kinds import Network
from routebook.settings.sources import (
    KEYS,
    LIVE_KEYS,
    Source,
    make_settings,
    read_live,
    resolve,
)

__all__ = [
    "KEYS",
    "LIVE_KEYS",
    "GuardSettings",
    "Key",
    "LimitSettings",
    "ListenSettings",
    "LiveSettings",
    "MemorySettings",
    "Network",
    "Settings",
    "SettingsError",
    "Source",
    "TestClusterSettings",
    "TlsSettings",
    "make_settings",
    "read_live",
    "resolve",
]
