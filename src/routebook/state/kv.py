"""KvStore: namespaced strings.

A namespace appears with its first key and stays when its last key goes. Changes are previewed,
written to disk by whoever owns the file, and only then applied, so what a reader sees is durable.

A pair is paid for by the host that set it last; nobody pays for those that were there at the start.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from routebook.events import Cause, Event, KvChanged
from routebook.state import costs
from routebook.state.account import Account, Kind, host_of
from routebook.state.errors import NoRoom, TableFull
from routebook.state.revision import Revision

Tables = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class KvChange:
    """Put ``value`` under the key, or delete the key when it is None."""

    namespace: str
    key: str
    value: str | None
    peer: str = ""

    @property
    def size(self) -> int:
        """Characters."""
        return len(self.namespace) + len(self.key) + len(self.value or "")


@dataclass(slots=True)
class Reserved:
    """Characters of changes on their way to the disk: of all, and of each host."""

    total: int = 0
    by_host: dict[str, int] = field(default_factory=dict)

    def add(self, change: KvChange) -> None:
        self._add(change, change.size)

    def give_back(self, change: KvChange) -> None:
        self._add(change, -change.size)

    def _add(self, change: KvChange, size: int) -> None:
        host = host_of(change.peer)
        self.total += size
        self.by_host[host] = self.by_host.get(host, 0) + size
        if not self.by_host[host]:
            del self.by_host[host]


_NOTHING = Reserved()


class KvStore:
    """``max_bytes`` bounds all pairs together, ``max_table_bytes`` those of some namespaces.

    One host may have its share of ``max_bytes``, as of everything.
    """

    def __init__(
        self,
        revision: Revision,
        max_bytes: int,
        tables: Tables | None = None,
        account: Account | None = None,
        *,
        max_table_bytes: Mapping[str, int] | None = None,
    ) -> None:
        self._account = account or Account()
        self._revision = revision
        self._max_bytes = max_bytes
        self._max_table_bytes = max_table_bytes or {}
        self._tables: Tables = {} if tables is None else tables
        self._generations = dict.fromkeys(self._tables, 1)
        self._sizes = {
            namespace: sum(len(key) + len(value) for key, value in table.items())
            for namespace, table in self._tables.items()
        }
        self._size = sum(map(len, self._tables)) + sum(self._sizes.values())
        self._max_of_one = self._account.budgets.of_one_peer(max_bytes)
        self._payers: dict[str, dict[str, str]] = {}  # hosts, of what was set since the start
        self._size_of: dict[str, int] = {}  # characters each of them has
        self._hosts: dict[str, str] = {}  # their names, each held once
        for namespace, table in self._tables.items():
            cost = sum(costs.pair(key, value) for key, value in table.items())
            self._account.charge(Kind.PAIRS, "", costs.namespace(namespace) + cost)

    def _payer_of(self, namespace: str, key: str) -> str:
        return self._payers.get(namespace, {}).get(key, "")

    def _charge(self, payer: str, cost: int, size: int) -> None:
        self._account.charge(Kind.PAIRS, payer, cost)
        if payer:
            self._size_of[payer] = held = self._size_of.get(payer, 0) + size
            if not held:
                del self._size_of[payer]
                self._hosts.pop(payer, None)

    def _pay(self, change: KvChange, before: str | None) -> None:
        """Let whoever made ``change`` pay for what it leaves, and nobody for what was there."""
        namespace, key, value = change.namespace, change.key, change.value
        if before is not None:
            owner = self._payer_of(namespace, key)
            self._charge(owner, -costs.pair(key, before), -len(key) - len(before))
        payer = host_of(change.peer)
        if namespace not in self._tables:  # for good
            self._charge(payer, costs.namespace(namespace), len(namespace))
        if value is not None:
            self._charge(payer, costs.pair(key, value), len(key) + len(value))
        if value is not None and payer:
            self._payers.setdefault(namespace, {})[key] = self._hosts.setdefault(payer, payer)
        else:
            self._payers.get(namespace, {}).pop(key, None)

    @property
    def tables(self) -> Mapping[str, Mapping[str, str]]:
        return self._tables

    def find(self, namespace: str, key: str) -> str | None:
        return self._tables.get(namespace, {}).get(key)

    def find_table(self, namespace: str) -> dict[str, str] | None:
        """The pairs of a namespace as they are now, for whoever reads them in slices.

        ``copy`` and not ``dict``, which puts the pairs in one by one once any was deleted: 100,000
        of them take a millisecond instead of six.
        """
        table = self._tables.get(namespace)
        return None if table is None else table.copy()

    def generation(self, namespace: str) -> int:
        """Raised with every change of the namespace; 0 when there is none."""
        return self._generations.get(namespace, 0)

    def check(self, change: KvChange, waiting: Reserved = _NOTHING) -> bool:
        """Whether ``change`` changes anything; raises TableFull when it would not fit.

        ``waiting`` is what changes on their way to the disk may still add.
        """
        payer, reserved = host_of(change.peer), waiting.total
        reserved_of_one = waiting.by_host.get(payer, 0)
        if change.value is None:
            if reserved + change.size > self._max_bytes:
                raise TableFull("changes of key-value pairs", self._max_bytes, "maxKvBytes")
            self._check_share(payer, reserved_of_one + change.size, "changes of key-value pairs")
            return self.find(change.namespace, change.key) is not None
        before = self.find(change.namespace, change.key)
        growth = len(change.value) - len(before or "") + (len(change.key) if before is None else 0)
        growth += 0 if change.namespace in self._tables else len(change.namespace)
        if growth > 0 and self._size + reserved + growth > self._max_bytes:
            raise TableFull("key-value pairs", self._max_bytes, "maxKvBytes")
        owner = self._payer_of(change.namespace, change.key)
        moved = len(change.key) + len(before) if before is not None and owner != payer else 0
        if growth + moved > 0:
            size = self._size_of.get(payer, 0) + reserved_of_one + growth + moved
            self._check_share(payer, size, "key-value pairs")
        limit = self._max_table_bytes.get(change.namespace)
        size = self._sizes.get(change.namespace, 0) + reserved + growth
        if limit is not None and growth > 0 and size > limit:
            what = f"the pairs of {change.namespace}"
            raise TableFull(what, limit, "characters; delete some first")
        cost = costs.pair(change.key, change.value)
        cost -= 0 if before is None else costs.pair(change.key, before)
        cost += 0 if change.namespace in self._tables else costs.namespace(change.namespace)
        taken_over = costs.pair(change.key, before) if before is not None and moved else 0
        if (reason := self._account.refusal(payer, cost, moved=taken_over)) is not None:
            raise NoRoom(reason)
        return before != change.value

    def _check_share(self, payer: str, size: int, what: str) -> None:
        if payer and size > self._max_of_one:
            settings = "maxKvBytes, memoryPeerPercent"
            raise TableFull(f"{what} of {payer}", self._max_of_one, settings)

    def preview(
        self, changes: Iterable[KvChange]
    ) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
        """The tables as they would be after ``changes``, a pair at a time.

        Nothing may be applied meanwhile. A key that is deleted and put again keeps its place.
        """
        latest: dict[str, dict[str, str | None]] = {}
        for change in changes:
            known = change.namespace in self._tables or change.namespace in latest
            if known or change.value is not None:
                latest.setdefault(change.namespace, {})[change.key] = change.value
        for namespace, table in self._tables.items():
            yield namespace, _changed(table, latest.pop(namespace, {}))
        for namespace, new in latest.items():
            yield namespace, _changed({}, new)

    def apply(self, changes: Iterable[KvChange]) -> list[Event]:
        events: list[Event] = []
        for change in changes:
            before = self.find(change.namespace, change.key)
            if before == change.value:
                continue
            self._pay(change, before)
            if change.namespace not in self._tables:
                self._size += len(change.namespace)
            table = self._tables.setdefault(change.namespace, {})
            if change.value is None:
                growth = -len(change.key) - len(table.pop(change.key))
            else:
                growth = len(change.value) - len(before or "")
                growth += len(change.key) if before is None else 0
                table[change.key] = change.value
            self._size += growth
            self._sizes[change.namespace] = self._sizes.get(change.namespace, 0) + growth
            self._generations[change.namespace] = self.generation(change.namespace) + 1
            events.append(
                KvChanged(
                    revision=self._revision.next(),
                    cause=Cause.ADMIN,
                    peer=change.peer,
                    namespace=change.namespace,
                    key=change.key,
                    before=before,
                    after=change.value,
                )
            )
        return events


def _changed(
    table: Mapping[str, str], latest: Mapping[str, str | None]
) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        after = latest.get(key, value)
        if after is not None:
            yield key, after
    for key, new in latest.items():
        if new is not None and key not in table:
            yield key, new
