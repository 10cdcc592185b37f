"""Bodies and texts as each server writes them, in canonical form."""

import re
from collections.abc import Iterable
from collections.abc import Mapping as Map
from dataclasses import dataclass

from differential.canonical import bean, mapping, unordered
from differential.steps import Mapping, Queues, Stamp

_BROWSER_SAFE = 2**53 - 1
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_FASTJSON_1 = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]')
_FASTJSON_1_STANDARD = re.compile('["\\\\/\x00-\x1f\x7f-\U0010ffff]')
_FASTJSON_2 = re.compile('["\\\\\x00-\x1f]')


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the default form, or the standard form of route answers for 4.9.4 and later."""

    escapes_as_fastjson_1: bool
    standard: bool = False

    def text(self, text: str) -> str:
        if not self.escapes_as_fastjson_1:
            return '"' + _FASTJSON_2.sub(_escape_small, text) + '"'
        pattern = _FASTJSON_1_STANDARD if self.standard else _FASTJSON_1
        return '"' + pattern.sub(_escape, text) + '"'

    def texts(self, texts: Iterable[str]) -> str:
        """A list whose order counts."""
        return "[" + ",".join(self.text(text) for text in texts) + "]"

    def strings(self, entries: Map[str, str]) -> str:
        return mapping({self.text(key): self.text(value) for key, value in entries.items()})

    def addrs(self, addrs: Map[int, str]) -> str:
        return mapping({self._integer_key(i): self.text(addr) for i, addr in addrs.items()})

    def _integer_key(self, number: int) -> str:
        return f'"{number}"' if self.standard else str(number)

    def _long(self, number: int) -> str:
        return f'"{number}"' if self.standard and abs(number) > _BROWSER_SAFE else str(number)

    def broker_data(
        self, addrs: Map[int, str], name: str, cluster: str, *, acting: bool, zone: str | None
    ) -> str:
        return bean(
            {
                "brokerAddrs": self.addrs(addrs),
                "brokerName": self.text(name),
                "cluster": self.text(cluster),
                "enableActingMaster": "true" if acting else "false",
                "zoneName": None if zone is None else self.text(zone),
            }
        )

    def queue_data(self, name: str, queues: Queues) -> str:
        return bean(
            {
                "brokerName": self.text(name),
                "perm": str(queues.perm),
                "readQueueNums": str(queues.read),
                "topicSysFlag": str(queues.sys_flag),
                "writeQueueNums": str(queues.write),
            }
        )

    def queue_mapping(self, info: Mapping) -> str:
        ids = {self._integer_key(logical): str(physical) for logical, physical in info.queues}
        return bean(
            {
                "bname": self.text(info.broker),
                "currIdMap": mapping(ids),
                "dirty": "false",
                "epoch": self._long(info.epoch),
                "scope": '"__global__"',
                "topic": self.text(info.topic),
                "totalQueues": str(info.total),
            }
        )

    def route(
        self,
        *,
        brokers: Iterable[str],
        filters: Map[str, Iterable[str]],
        order_conf: str | None,
        queues: Iterable[str],
        mappings: Map[str, Mapping],
    ) -> str:
        by_broker = {self.text(name): self.queue_mapping(info) for name, info in mappings.items()}
        return bean(
            {
                "brokerDatas": unordered(brokers),
                "filterServerTable": mapping(
                    {self.text(addr): self.texts(servers) for addr, servers in filters.items()}
                ),
                "orderTopicConf": None if order_conf is None else self.text(order_conf),
                "queueDatas": unordered(queues),
                "topicQueueMappingByBroker": mapping(by_broker) if by_broker else None,
            }
        )

    def data_version(self, stamp: Stamp, now: str) -> str:
        return bean(
            {
                "counter": str(stamp.counter),
                "stateVersion": str(stamp.state_version),
                "timestamp": now if stamp.timestamp is None else str(stamp.timestamp),
            }
        )


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character == "/":
        return "\\/"
    if short := _SHORT.get(character):
        return short
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04X}" for i in range(0, len(units), 2))


def _escape_small(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}"
