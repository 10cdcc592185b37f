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
from collections.abc import Hashable, Mapping
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from routebook.slices import Slices
from routebook.state.model import Link

T = TypeVar("T", bound=Hashable)

NAMES_A_SLICE = 2000


class Origin(NamedTuple):
    """Where a broker registered from: the peer's host, and the connection."""

    host: str
    link: Link  # one of its own for a broker without


class _Ordinary(Generic[T]):
    """Numbers by name, none greater than the mean of the others."""

    def __init__(self) -> None:
        self.of: dict[T, int] = {}
        self.all = 0

    def add(self, numbers: Mapping[T, int]) -> Slices[None]:
        total, others = sum(numbers.values()), len(numbers) - 1
        names = iter(numbers.items())
        while some := list(islice(names, NAMES_A_SLICE)):
            for name, number in some:
                most = min(number, -((number - total) // others)) if others else number
                self.of[name] = most
                self.all += most
            yield


class Census:
    """Made of where each broker registered from: a host, and a connection."""

    def __init__(self, brokers: Mapping[Origin, int]) -> None:
        self._brokers = brokers
        self._links: _Ordinary[Origin] = _Ordinary()
        self._on_host: Counter[str] = Counter()
        self._hosts: _Ordinary[str] = _Ordinary()

    def count(self) -> Slices[None]:
        yield from self._links.add(self._brokers)
        links = iter(self._links.of.items())
        while some := list(islice(links, NAMES_A_SLICE)):
            for (host, _), number in some:
                self._on_host[host] += number
            yield
        yield from self._hosts.add(self._on_host)

    def around(self, origin: Origin) -> int:
        """How many brokers one from ``origin`` counts, itself included."""
        host = origin[0]
        own = self._brokers[origin]
        on_host = self._on_host[host] - self._links.of[origin]
        return own + on_host + self._hosts.all - self._hosts.of[host]


def counted(brokers: Mapping[Origin, int]) -> Slices[Census]:
    """The census of so many brokers for each host and connection."""
    census = Census(brokers)
    yield from census.count()
    return census
