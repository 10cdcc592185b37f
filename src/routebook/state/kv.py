"""KvStore: namespaced strings.

A namespace appears with its first key and stays when its last key goes. Changes are previewed,
written to disk by whoever owns the file, and only then applied, so what a reader sees is durable.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from routebook.events import Cause, Event, KvChanged
from routebook.state import costs
from routebook.state.account import Account, Kind
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


class KvStore:
    """``max_bytes`` bounds all pairs together, ``max_table_bytes`` those of some namespaces."""

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
        for table in self._tables.values():
            self._charge(sum(costs.pair(key, value) for key, value in table.items()))

    def _charge(self, amount: int) -> None:
        self._account.charge(Kind.PAIRS, "", amount)

    @property
    def tables(self) -> Mapping[str, Mapping[str, str]]:
        return self._tables

    def find(self, namespace: str, key: str) -> str | None:
        return self._tables.get(namespace, {}).get(key)

    def find_table(self, namespace: str) -> Mapping[str, str] | None:
        return self._tables.get(namespace)

    def generation(self, namespace: str) -> int:
        """Raised with every change of the namespace; 0 when there is none."""
        return self._generations.get(namespace, 0)

    def check(self, change: KvChange, reserved: int = 0) -> bool:
        """Whether ``change`` changes anything; raises TableFull when it would not fit.

        ``reserved`` is what changes on their way to the disk may still add.
        """
        if change.value is None:
            if reserved + len(change.namespace) + len(change.key) > self._max_bytes:
                raise TableFull("changes of key-value pairs", self._max_bytes, "maxKvBytes")
            return self.find(change.namespace, change.key) is not None
        before = self.find(change.namespace, change.key)
        growth = len(change.value) - len(before or "") + (len(change.key) if before is None else 0)
        growth += 0 if change.namespace in self._tables else len(change.namespace)
        if growth > 0 and self._size + reserved + growth > self._max_bytes:
            raise TableFull("key-value pairs", self._max_bytes, "maxKvBytes")
        limit = self._max_table_bytes.get(change.namespace)
        size = self._sizes.get(change.namespace, 0) + reserved + growth
        if limit is not None and growth > 0 and size > limit:
            what = f"the pairs of {change.namespace}"
            raise TableFull(what, limit, "characters; delete some first")
        cost = costs.pair(change.key, change.value)
        cost -= 0 if before is None else costs.pair(change.key, before)
        if (reason := self._account.refusal("", cost)) is not None:
            raise NoRoom(reason)
        return before != change.value

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
            if change.namespace not in self._tables:
                self._size += len(change.namespace)
            table = self._tables.setdefault(change.namespace, {})
            self._charge(0 if before is None else -costs.pair(change.key, before))
            if change.value is None:
                growth = -len(change.key) - len(table.pop(change.key))
            else:
                self._charge(costs.pair(change.key, change.value))
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
