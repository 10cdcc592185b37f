"""In which order Java's hash tables are walked; it decides a few answers of the reference."""

from collections.abc import Iterable

HASH_MAP = 16  # buckets of a new HashMap
BROKER_TABLE = 256  # of RouteInfoManager.brokerAddrTable, far from full in these tests
LIVE_TABLE = 512  # of RouteInfoManager.brokerLiveTable


def string_hash(text: str) -> int:
    """``String.hashCode`` as an unsigned number."""
    units = text.encode("utf-16-be")
    result = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result


def walk(keys: Iterable[str], buckets: int) -> list[str]:
    """``keys``, given in the order they were put in, as an iterator of the table yields them."""

    def bucket(key: str) -> int:
        hashed = string_hash(key)
        return (hashed ^ hashed >> 16) & (buckets - 1)

    return sorted(keys, key=bucket)
