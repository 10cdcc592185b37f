"""WideRoute: the body of a route that thousands of groups are part of.

The same bytes as ``bodies.topic_route``, grown a group at a time and finished in slices.
"""

from collections.abc import Iterable, Mapping

from routebook.slices import Slices
from routebook.wire.fastjson import quoted, quoted_standard
from routebook.wire.text import grown


class WideRoute:
    def __init__(self, *, standard: bool) -> None:
        self._quote = quoted_standard if standard else quoted
        self._text = bytearray(b'{"brokerDatas":[')
        self._queues = bytearray()
        self._filters: dict[str, Iterable[str]] = {}

    def __len__(self) -> int:
        return len(self._text) + len(self._queues)

    def add(
        self, broker: bytes, queues: bytes, filter_servers: Mapping[str, Iterable[str]]
    ) -> None:
        """The encoded broker data and queue data of one group."""
        if self._queues:
            self._text += b","
            self._queues += b","
        self._text += broker
        self._queues += queues
        self._filters.update(filter_servers)

    def body(self, *, order_conf: str | None, mappings: Iterable[Slices[bytes]]) -> Slices[bytes]:
        """``mappings`` are those of ``bodies.queue_mapping_slices``."""
        text, quote = self._text, self._quote
        text += b'],"filterServerTable":{'
        between = b""
        for addr, servers in self._filters.items():
            text += between + quote(addr) + b":["
            text += b",".join([quote(server) for server in servers]) + b"]"
            between = b","
            yield
        text += b"},"
        if order_conf is not None:
            text += b'"orderTopicConf":' + quote(order_conf) + b","
        text += b'"queueDatas":['
        yield
        text += self._queues
        text += b"]"
        yield
        between = b',"topicQueueMappingByBroker":{'
        for mapping in mappings:
            encoded = yield from mapping
            text += between
            text += encoded
            between = b","
            yield
        text += b"}}" if between == b"," else b"}"
        return grown(text)
