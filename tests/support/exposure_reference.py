"""Exposure once more, in plain Python and by the words of its page.

Slow and simple. Rows are dicts with the columns of the table, times in them milliseconds.
"""

from collections.abc import Iterable, Mapping, Sequence

from routebook.events import (
    BrokerConfirmed,
    BrokerRegistered,
    BrokerUpdated,
    HeartbeatGaps,
    RegistrationCompleted,
)
from routebook.journal.record import Record
from support.common_clock import DAY_MS, Clocks, Row, day_of, wall_ms
from support.plain_silver import PlainSilver

_NOTICED = ("unregister", "admin", "connection_closed")
_RECORDED = ("idle", "not_confirmed", "replaced")


def exposures(
    silver: PlainSilver, records: Mapping[str, Sequence[Record]], *, poll_s: float = 30.0
) -> list[Row]:
    clocks = Clocks(silver.skew)
    rows = []
    for row in silver.sessions:
        if row["to_seq"] is None or row["cause"] not in (*_NOTICED, "expired", *_RECORDED):
            continue
        removed_ms = wall_ms(row["ended_at"])
        ahead_ms = removed_ms - clocks.ms(row["node"], row["ended_at"])
        alive_ms = _last_alive(row, silver.suspects, records[row["node"]])
        earliest_ms = max(wall_ms(row["began_at"]), removed_ms - DAY_MS)
        alive_ms = min(removed_ms, max(alive_ms, earliest_ms))
        detection_s = (removed_ms - alive_ms) / 1000
        names = ("node", "cluster", "broker", "broker_id", "addr", "cause")
        rows.append(
            {
                **{name: row[name] for name in names},
                "day": day_of(removed_ms - ahead_ms),
                "fleet": "default",
                "last_alive_ms": alive_ms - ahead_ms,
                "removed_ms": removed_ms - ahead_ms,
                "exposed_until_ms": removed_ms - ahead_ms + round(poll_s * 1000),
                "detection_s": detection_s,
                "exposure_s": detection_s + poll_s,
                "expected_stale_s": detection_s + poll_s / 2,
                **_topics(row, silver.versions),
            }
        )
    return rows


def _last_alive(row: Row, suspects: Iterable[Row], records: Iterable[Record]) -> int:
    removed_ms, cause = wall_ms(row["ended_at"]), row["cause"]
    place = ("node", "cluster", "broker", "broker_id", "addr")
    held = [
        hold
        for hold in suspects
        if all(hold[name] == row[name] for name in place)
        and row["from_seq"] <= hold["from_seq"] < row["to_seq"]
        and (hold["to_at"] is None or wall_ms(hold["to_at"]) >= removed_ms - 1000)
    ]
    if held and cause not in ("unregister", "admin"):
        hold = max(held, key=lambda hold: hold["from_seq"])
        return wall_ms(hold["from_at"]) - int(hold["silent_ms"])
    if cause in _NOTICED:
        return removed_ms
    if cause == "expired":
        return removed_ms - int(row["heartbeat_timeout_ms"])
    signs = [0]
    for record in records:
        event = record.event
        if not isinstance(
            event,
            BrokerRegistered
            | BrokerUpdated
            | BrokerConfirmed
            | RegistrationCompleted
            | HeartbeatGaps,
        ):
            continue
        who = (record.node, event.cluster, event.broker, event.broker_id, event.addr)
        if who == tuple(row[name] for name in place):
            sign_ms = record.wall_ms
            if isinstance(event, HeartbeatGaps):
                sign_ms = min(sign_ms, sign_ms - event.window_ms + sum(event.gaps_ms[1:]))
            if row["from_seq"] <= record.seq < row["to_seq"]:
                signs.append(sign_ms)
    return max([sign for sign in signs if sign >= removed_ms - DAY_MS], default=0)


def _topics(row: Row, versions: Iterable[Row]) -> Row:
    seq = row["to_seq"]
    on_node = [each for each in versions if each["node"] == row["node"] and _routable(each)]
    here = [
        each
        for each in on_node
        if (each["cluster"], each["broker"]) == (row["cluster"], row["broker"])
        and each["from_seq"] < seq
        and (each["to_seq"] is None or each["to_seq"] >= seq)
    ]
    after = {
        each["topic"]
        for each in on_node
        if each["from_seq"] <= seq and (each["to_seq"] is None or each["to_seq"] > seq)
    }
    ended = {each["topic"] for each in here if each["to_seq"] == seq}
    return {"topics": len(here), "topics_lost": len(ended - after)}


def _routable(version: Row) -> bool:
    perm = version["perm"]
    return bool((perm & 4 and version["read_queues"]) or (perm & 2 and version["write_queues"]))
