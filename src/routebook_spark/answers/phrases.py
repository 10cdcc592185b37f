"""Pieces of sentences as columns: spans of time, queues, brokers, causes.

The words are those of ``routebook history``.
"""

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from routebook.events import Cause
from routebook.history.telling.reasons import why_changed as changed_reason
from routebook.history.telling.reasons import why_left as left_reason
from routebook.words import EXAMPLES

_PEER = "{peer}"
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000


def joined(*parts: Column | str) -> Column:
    """Columns and texts one after the other; null when a column is."""
    return F.concat(*(F.lit(part) if isinstance(part, str) else part for part in parts))


def or_nothing(phrase: Column) -> Column:
    return F.coalesce(phrase, F.lit(""))


def counted(number: Column, noun: str) -> Column:
    """As in ``1 topic`` and ``2 topics``."""
    return joined(number.cast("string"), F.when(number == 1, f" {noun}").otherwise(f" {noun}s"))


def listed(names: Column) -> Column:
    """``a``, ``a and b``, ``a, b and c``, ``a, b, c and 7 more``."""
    size = F.size(names)
    return (
        F.when(
            size > EXAMPLES,
            joined(
                F.array_join(F.slice(names, 1, EXAMPLES), ", "),
                " and ",
                (size - EXAMPLES).cast("string"),
                " more",
            ),
        )
        .when(
            size > 1,
            joined(
                F.array_join(F.slice(names, F.lit(1), size - 1), ", "),
                " and ",
                F.element_at(names, -1),
            ),
        )
        .otherwise(F.array_join(names, ""))
    )


# -- times


def span(ms: Column) -> Column:
    """``850 ms``, ``4.2 s``, ``30 s``, ``4 min 10 s``, ``2 h 5 min``, ``3 d 4 h``."""
    tenths = _whole(ms / 100)
    tenth = F.when(tenths % 10 > 0, joined(".", (tenths % 10).cast("string"))).otherwise("")
    return (
        F.when(ms < 0, joined("-", F.abs(ms).cast("string"), " ms"))
        .when(ms < _SECOND, joined(ms.cast("string"), " ms"))
        .when(ms < 10 * _SECOND, joined(_whole(tenths / 10).cast("string"), tenth, " s"))
        .when(ms < _MINUTE, joined(_whole(ms / _SECOND).cast("string"), " s"))
        .when(ms < _HOUR, _two(ms, (_MINUTE, "min"), (_SECOND, "s")))
        .when(ms < _DAY, _two(ms, (_HOUR, "h"), (_MINUTE, "min")))
        .otherwise(_two(ms, (_DAY, "d"), (_HOUR, "h")))
    )


def _two(ms: Column, large: tuple[int, str], small: tuple[int, str]) -> Column:
    rest = _whole(ms % large[0] / small[0])
    return joined(
        _whole(ms / large[0]).cast("string"),
        f" {large[1]}",
        F.when(rest > 0, joined(" ", rest.cast("string"), f" {small[1]}")).otherwise(""),
    )


def _whole(number: Column) -> Column:
    return F.floor(number)


def time_of_day(at: Column) -> Column:
    return F.date_format(at, "HH:mm:ss'Z'")


def to_second(at: Column) -> Column:
    return F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss'Z'")


# -- queues: read queues, write queues, permission, flags


def permission(perm: Column) -> Column:
    """``RW-``, as mqadmin writes it."""
    return F.concat(
        *(
            F.when(perm.bitwiseAND(bit) > 0, letter).otherwise("-")
            for letter, bit in (("R", 4), ("W", 2), ("X", 1))
        )
    )


def queues(shape: Column) -> Column:
    """``8 read and 8 write queues, permission RW-``."""
    return joined(
        shape[0].cast("string"),
        " read and ",
        shape[1].cast("string"),
        " write queues, permission ",
        permission(shape[2]),
        F.when(shape[3] != 0, joined(", flags ", shape[3].cast("string"))).otherwise(""),
    )


def short_queues(shape: Column) -> Column:
    """``8/8 RW-``, read before write."""
    told = joined(
        shape[0].cast("string"),
        "/",
        shape[1].cast("string"),
        " ",
        permission(shape[2]),
        F.when(shape[3] != 0, joined(" flags ", shape[3].cast("string"))).otherwise(""),
    )
    return F.coalesce(told, F.lit("none"))


def what_changed(before: Column, after: Column) -> Column:
    """``permission RW- to R--, read queues 8 to 4``."""
    parts = F.array(
        _differs("read queues ", before[0], after[0]),
        _differs("write queues ", before[1], after[1]),
        F.when(
            before[2] != after[2],
            joined("permission ", permission(before[2]), " to ", permission(after[2])),
        ),
        _differs("flags ", before[3], after[3]),
    )
    return (
        F.when(before.isNull(), "came")
        .when(after.isNull(), "went")
        .otherwise(F.array_join(parts, ", "))
    )


def _differs(name: str, before: Column, after: Column) -> Column:
    text = joined(name, before.cast("string"), " to ", after.cast("string"))
    return F.when(before != after, text)


# -- brokers


def member(broker_id: Column, addr: Column) -> Column:
    return joined("id ", broker_id.cast("string"), " (", addr, ")")


def members(addrs: Column) -> Column:
    """Of a map of addresses by id, which are texts there."""
    entries = F.transform(
        F.map_entries(addrs),
        lambda entry: F.struct(entry["key"].cast("long").alias("id"), entry["value"].alias("addr")),
    )
    return listed(
        F.transform(F.sort_array(entries), lambda entry: member(entry["id"], entry["addr"]))
    )


def origin(peer: Column) -> Column:
    """Whoever it was, as far as it is known."""
    return F.when(peer != "", peer).otherwise("an unknown address")


# -- causes


def why_left(cause: Column) -> Column:
    """``its connection was closed by the peer``."""
    return _by_cause(cause, ((each.value, F.lit(left_reason(each))) for each in Cause))


def why_changed(cause: Column, peer: Column) -> Column:
    """``by an administrator at 10.0.0.9:51234``."""
    phrase = _by_cause(cause, ((each.value, F.lit(changed_reason(each, _PEER))) for each in Cause))
    return F.replace(phrase, F.lit(_PEER), origin(peer))


def _by_cause(cause: Column, phrases: Iterable[tuple[str, Column]]) -> Column:
    """The phrase for each cause; one of a later version is told as it is."""
    chosen: Column = reduce(
        lambda told, each: told.when(cause == each[0], each[1]), phrases, F.when(F.lit(False), "")
    )
    return chosen.otherwise(cause)
