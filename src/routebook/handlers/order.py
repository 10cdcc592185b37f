"""OrderTable: the order configuration every registration is answered with, encoded once.

RocketMQ's broker takes it to learn which of its topics are ordered. All brokers are told all of
it, every time they register: it is bounded, and encoded anew only after it has changed.
"""

from routebook.slices import Slices
from routebook.state.kv import KvStore
from routebook.wire import bodies

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
MAX_ORDER_BYTES = 1024 * 1024  # characters: some ten thousand ordered topics


class OrderTable:
    def __init__(self, kv: KvStore) -> None:
        self._kv = kv
        self._kept: tuple[int, bytes] | None = None  # of which generation of the table

    def body(self) -> bytes | None:
        """The encoded table, empty when there is none; None when it has to be encoded first."""
        generation = self._kv.generation(ORDER_NAMESPACE)
        if not generation:
            return b""
        if self._kept is not None and self._kept[0] == generation:
            return self._kept[1]
        return None

    def encoded(self) -> Slices[bytes]:
        """Encode the table if need be, in slices."""
        while (body := self.body()) is None:
            generation = self._kv.generation(ORDER_NAMESPACE)
            table = self._kv.find_table(ORDER_NAMESPACE) or {}
            self._kept = generation, (yield from bodies.kv_table(table))
        return body
