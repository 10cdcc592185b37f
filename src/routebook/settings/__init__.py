"""Settings: every key a node knows, where its value came from, and small frozen types of them.

Names are RocketMQ's own (``listenPort``) and are spelt the same way everywhere: ``listenPort=``
in a properties file, ``--listen-port`` on the command line, ``ROUTEBOOK_LISTEN_PORT`` in the
environment. Sources, each overriding the ones before it:

    defaults, the -c file, updates made by mqadmin (318), the environment, the command line

A key is declared once, in ``groups`` (or ``ignored``): name, field, default, what it may be and
what it means.
"""

from routebook.settings.errors import SettingsError
from routebook.settings.groups import GatewaySettings as GatewaySettings
from routebook.settings.groups import GuardSettings as GuardSettings
from routebook.settings.groups import LimitSettings as LimitSettings
from routebook.settings.groups import ListenSettings as ListenSettings
from routebook.settings.groups import LiveSettings as LiveSettings
from routebook.settings.groups import MemorySettings as MemorySettings
from routebook.settings.groups import Settings
from routebook.settings.groups import TestClusterSettings as TestClusterSettings
from routebook.settings.groups import TlsSettings as TlsSettings
from routebook.settings.keys import Key as Key
from routebook.settings.kinds import Network as Network
from routebook.settings.sources import KEYS as KEYS
from routebook.settings.sources import LIVE_KEYS as LIVE_KEYS
from routebook.settings.sources import Source as Source
from routebook.settings.sources import make_settings
from routebook.settings.sources import public_without_token as public_without_token
from routebook.settings.sources import read_live as read_live
from routebook.settings.sources import resolve as resolve

__all__ = ["Settings", "SettingsError", "make_settings"]  # of users; the rest is for the node
