"""Census: how many brokers there are, for whoever asks whether there are enough of them.

A stranger can register as many as it likes, and each would be one more. So a broker counts all of
its own connection, and of every other connection no more than the others have on average; of its
own host all of what these make, and of every other host again no more than the others on average.
Who plays many counts as one who does not.

    a host and a connection each, five of them                            5 for each
    the same, and a sixth host with 13 brokers                            6; 18 for those 13
    two brokers on each of five hosts, a connection each                  10 for each
    twelve behind one address, a connection each                          12 for each
    the same, and another host with 13 over one connection                13; 25 for those 13

Only whoever has a connection for each, and an address beside one that all others share, is one more
address of that kind.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

from routebook.state.model import Link

T = TypeVar("T", bound=Hashable)


class _Ordinary(Generic[T]):
    """Numbers by name, none greater than the mean of the others."""

    def __init__(self, numbers: Mapping[T, int]) -> None:
        total, others = sum(numbers.values()), len(numbers) - 1
        self.of = {
            name: min(number, -((number - total) // others)) if others else number
            for name, number in numbers.items()
        }
        self.all = sum(self.of.values())


class Census:
    """Made of where each broker registered from: a host, and a connection."""

    def __init__(self, origins: Collection[tuple[str, Link]]) -> None:
        self._brokers = Counter(origins)
        self._links = _Ordinary(self._brokers)
        self._on_host: Counter[str] = Counter()
        for (host, _), number in self._links.of.items():
            self._on_host[host] += number
        self._hosts = _Ordinary(self._on_host)

    def around(self, origin: tuple[str, Link]) -> int:
        """How many brokers one from ``origin`` counts, itself included."""
        host = origin[0]
        own = self._brokers[origin]
        on_host = self._on_host[host] - self._links.of[origin]
        return own + on_host + self._hosts.all - self._hosts.of[host]
