"""Answers routes, clusters, topics and broker groups from a cache of its own."""

from routebook.relay.relay import Relay, RelaySettings

__all__ = ["Relay", "RelaySettings"]
