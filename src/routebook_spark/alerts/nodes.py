"""Nodes: starts, stops, losses, and clocks, as each bucket has to know them.

Alerts about a node are raised where it is at home.
"""

from routebook.history.finding.witness import DEFAULT_WINDOW_MS
from routebook.words import counted, span, to_second
from routebook_spark.alerts import brokers, divergence, folders, heartbeats, mass_loss, waking
from routebook_spark.alerts.bucket_state import BucketState, Node
from routebook_spark.alerts.facts import Fact
from routebook_spark.alerts.ledger import Kind, Subject, Telling

_AHEAD_MS = 5 * 60_000
_OVERLAP_MS = 10_000
_LIVES = 8
_JOURNAL = "journal"
_TURNS = frozenset(
    {"NodeStarted", "NodeStopped", "JournalRecovered", "RecordsLost", "StateRestated"}
)
_KEPT = (
    Kind.FLAPPING,
    Kind.NODE_KILLED,
    Kind.NODE_SILENT,
    Kind.RECORDS_LOST,
    Kind.CLOCK_AHEAD,
    Kind.NODE_ID_TWICE,
)
"""Alerts that go on when the node is down."""


def repeated(bucket: BucketState, node: Node, fact: Fact) -> None:
    """A record with a number that had been there: a copy, unless it is newer than the last."""
    if fact.home and fact.at_ms > node.clock_ms:
        bucket.ledger.hold(
            Subject(Kind.NODE_ID_TWICE, node=node.name),
            "number",
            since_ms=fact.at_ms,
            at_ms=fact.at_ms,
            telling=lambda nodes: (
                f"Record {fact.seq} of {node.name} came at {to_second(fact.at_ms)}, after record"
                f" {node.seq}: two nodes use this id, or it lost its data folder and counts anew."
                " Its records are not watched as long as they repeat; give one of them another"
                " nodeId, and the watch another checkpoint."
            ),
            evidence={"seq": fact.seq, "last_seq": node.seq},
        )


def in_this_life(bucket: BucketState, node: Node, fact: Fact) -> bool:
    """Whether a fact is of the data folder the node has now, be it a new one since this fact."""
    if fact.incarnation == node.life:
        if node.rival:
            _twice(bucket, node, fact)
            node.rival = ""
        return True
    if fact.seq > node.seq and "" in (fact.incarnation, node.life):
        node.life = node.life or fact.incarnation  # nobody had said so far
        return True
    if not _takes_over(node, fact):
        if fact.at_ms > node.life_ms + _OVERLAP_MS:
            node.rival, node.rival_ms = fact.incarnation, fact.at_ms
        _bury(node, fact.incarnation)
        return False
    heartbeats.look(bucket, node)
    mass_loss.look(bucket, node, now_ms=node.clock_ms)
    divergence.look(bucket)
    brokers.forget(bucket, node)
    _bury(node, node.life)
    node.former = [life for life in node.former if life != fact.incarnation]
    node.rival = ""
    node.life, node.life_ms, node.seq = fact.incarnation, fact.at_ms, fact.seq - 1
    node.running, node.lost, node.whole, node.live, node.mono_ms = True, False, False, None, None
    _release_all(bucket, node, fact, f"{node.name} has a new data folder.")
    for kind in (Kind.RECORDS_LOST, Kind.NODE_KILLED):
        bucket.ledger.release(
            Subject(kind, node=node.name),
            _JOURNAL,
            at_ms=fact.at_ms,
            sentence=f"{node.name} has a new data folder.",
        )
    return True


def _takes_over(node: Node, fact: Fact) -> bool:
    """Whether a fact of another life is of one that took the place of that the node has.

    One that goes on when the other has fallen silent does; so does one that is born while the
    other lived, for if that goes on to live there are two, and it will show. Whatever is older is
    a copy.
    """
    if fact.at_ms > node.clock_ms + node.silence_ms:
        return True
    if fact.incarnation in node.former:
        return False
    born = fact.seq == 1 and fact.at_ms > node.life_ms
    return born or fact.at_ms >= node.clock_ms - _OVERLAP_MS


def _bury(node: Node, life: str) -> None:
    if life not in node.former:
        node.former = [*node.former, life][-_LIVES:]


def _twice(bucket: BucketState, node: Node, fact: Fact) -> None:
    """The life of ``fact`` goes on, and so did its rival."""
    if not fact.home:
        return
    rival, rival_ms = node.rival, node.rival_ms
    bucket.ledger.hold(
        Subject(Kind.NODE_ID_TWICE, node=node.name),
        "life",
        since_ms=min(rival_ms, fact.at_ms),
        at_ms=fact.at_ms,
        telling=lambda nodes: (
            f"Two nodes write records as {node.name} at the same time, by their clocks, in two data"
            f" folders: one of them at {to_second(rival_ms)}, the other since"
            f" {to_second(node.life_ms)}. Only the latter is watched; give one of them another"
            " nodeId, unless its clock was set back when its disk was replaced."
        ),
        evidence={"life": node.life, "other": rival},
    )


def take(bucket: BucketState, node: Node, fact: Fact) -> None:
    """Note what a fact says of the node itself; the bucket still has its clock from before."""
    last = fact.last_seq if fact.type == "JournalRecovered" else fact.seq - 1
    missing = 0 if last is None else last - node.seq
    folders.heard(bucket, node.name, at_ms=fact.at_ms)
    if missing <= 0:
        waking.look(bucket, node, fact)
        if fact.type == "JournalRecovered" and fact.alive_ms is not None:
            # So long it is known to have had nothing to write down.
            node.clock_ms = max(node.clock_ms, min(fact.alive_ms, fact.at_ms))
    if missing > 0 or fact.type in _TURNS:
        # How things stood up to now, before they change.
        heartbeats.look(bucket, node)
        mass_loss.look(bucket, node, now_ms=node.clock_ms)
        divergence.look(bucket)
    if missing > 0:
        _lose_sight(bucket, node, fact, missing)
        if fact.type == "NodeStalled":
            waking.stalled(bucket, node, fact)
    node.seq = fact.seq
    node.wall_ms, node.mono_ms = fact.wall_ms, fact.mono_ms
    waking.steady(bucket, node, at_ms=fact.at_ms)
    if fact.home:
        _look_at_clock(bucket, node, fact)
    match fact.type:
        case "NodeStarted":
            _started(bucket, node, fact)
        case "NodeStopped":
            node.running, node.mono_ms, node.slept_ms = False, None, fact.at_ms
            _release_all(bucket, node, fact, f"{node.name} was stopped.")
        case "JournalRecovered":
            _killed(bucket, node, fact)
        case "RecordsLost":
            _lost(bucket, node, fact)
        case "StateRestated":
            _restated(bucket, node, fact)
        case "GroupRestated" if not fact.continued:
            node.restated += 1
            node.restated_live += fact.joined
        case "BrokerRegistered" | "BrokerLeft" if node.live is not None:
            node.live = max(node.live + fact.joined, 0)


def _lose_sight(bucket: BucketState, node: Node, fact: Fact, missing: int) -> None:
    since_ms = node.clock_ms
    brokers.forget(bucket, node)
    node.whole, node.live = False, None
    _release_all(bucket, node, fact, f"What {node.name} says of it is not known now.")
    waking.no_witness(node, since_ms, fact.at_ms, honest=False)  # that it slept may be missing too
    _hold_lost(
        bucket,
        fact,
        since_ms,
        lambda nodes: (
            f"{counted(missing, 'record')} of {node.name} from after {to_second(since_ms)} are not"
            " in its folder. What it knows since then is not watched until it restarts or states"
            " its tables anew; see whether its segments are copied completely (`routebook journal"
            " verify`)."
        ),
        missing,
    )


def _look_at_clock(bucket: BucketState, node: Node, fact: Fact) -> None:
    subject = Subject(Kind.CLOCK_AHEAD, node=node.name)
    if fact.ahead_ms > _AHEAD_MS:
        bucket.ledger.hold(
            subject,
            "clock",
            since_ms=fact.at_ms,
            at_ms=fact.at_ms,
            telling=lambda nodes: (
                f"The clock of {node.name} is {span(fact.ahead_ms)} ahead of the one here. Its"
                " records count as written when they came, until it is right; correct it with care,"
                " retention goes by it."
            ),
            evidence={"ahead_ms": fact.ahead_ms},
        )
    elif fact.ahead_ms < _AHEAD_MS / 2:
        bucket.ledger.release(
            subject, "clock", at_ms=fact.at_ms, sentence=f"The clock of {node.name} is right again."
        )


def _started(bucket: BucketState, node: Node, fact: Fact) -> None:
    since_ms = node.clock_ms if node.running else node.slept_ms
    node.running, node.live, node.window_at_ms = True, fact.brokers, fact.at_ms
    node.window_ms = max(node.window_ms, DEFAULT_WINDOW_MS)
    node.measure(DEFAULT_WINDOW_MS)
    if fact.brokers == 0:
        brokers.forget(bucket, node)
        node.whole, node.whole_ms, node.lost = True, fact.at_ms, False
    for claim in bucket.each_claim(node.name):
        claim.arriving = False
    for member in bucket.each_member(node.name):
        member.heard_ms = fact.at_ms  # nobody could be heard of meanwhile
    if fact.brokers:
        waking.restarted(node, since_ms=since_ms, at_ms=fact.at_ms)
    known = counted(fact.brokers or 0, "broker")
    back = f"{node.name} is back since {to_second(fact.at_ms)}, with {known} from before."
    for kind in (Kind.NODE_KILLED,) if node.lost else (Kind.NODE_KILLED, Kind.RECORDS_LOST):
        bucket.ledger.release(
            Subject(kind, node=node.name), _JOURNAL, at_ms=fact.at_ms, sentence=back
        )
    divergence.compare_all(bucket, at_ms=fact.at_ms)


def _killed(bucket: BucketState, node: Node, fact: Fact) -> None:
    last_ms = node.clock_ms
    node.running, node.mono_ms, node.slept_ms = False, None, last_ms
    _release_all(bucket, node, fact, f"{node.name} had not been stopped in order.")
    if not fact.home:
        return
    set_back = fact.at_ms < last_ms
    by_clock = " by the clock it had then, which was set back since" if set_back else ""
    bucket.ledger.hold(
        Subject(Kind.NODE_KILLED, node=node.name),
        _JOURNAL,
        since_ms=last_ms,
        at_ms=fact.at_ms,
        telling=lambda nodes: (
            f"{node.name} ended without being stopped, at some moment after {to_second(last_ms)}"
            f"{by_clock}, and wrote again at {to_second(fact.at_ms)}. What happened in between is"
            " not known; look into its log and that of its machine for the reason (memory, power,"
            " kill)."
        ),
        evidence={
            "last_seq": fact.last_seq,
            "alive_at": to_second(last_ms),
            **({} if set_back else {"down_ms_at_most": fact.at_ms - last_ms}),
        },
    )


def _lost(bucket: BucketState, node: Node, fact: Fact) -> None:
    node.lost = True
    _release_all(bucket, node, fact, f"{node.name} could not write down what it knew.")
    node.restated = node.restated_live = 0
    for claim in bucket.each_claim(node.name):
        claim.stated = False
    count, since_ms = fact.count or 0, fact.since_ms or fact.at_ms
    _hold_lost(
        bucket,
        fact,
        since_ms,
        lambda nodes: (
            f"{node.name} could not write {counted(count, 'record')} from {to_second(since_ms)} on:"
            " its disk is full, slow or broken. It serves all the same, and states its tables anew"
            " when it can; `routebook health` shows its journal."
        ),
        count,
    )


def _hold_lost(
    bucket: BucketState, fact: Fact, since_ms: int, telling: Telling, count: int
) -> None:
    if fact.home:
        bucket.ledger.hold(
            Subject(Kind.RECORDS_LOST, node=fact.node),
            _JOURNAL,
            since_ms=since_ms,
            at_ms=fact.at_ms,
            telling=telling,
            evidence={"records": count},
        )


def _restated(bucket: BucketState, node: Node, fact: Fact) -> None:
    if node.restated < (fact.count or 0):
        return  # records were lost again while it was being restated
    brokers.forget(bucket, node, unstated=True)
    node.whole, node.whole_ms, node.lost = True, fact.at_ms, False
    node.live, node.window_at_ms = node.restated_live, max(node.window_at_ms, fact.at_ms)
    bucket.ledger.release(
        Subject(Kind.RECORDS_LOST, node=node.name),
        _JOURNAL,
        at_ms=fact.at_ms,
        sentence=f"{node.name} has stated its tables anew, and is watched again.",
    )
    divergence.compare_all(bucket, at_ms=fact.at_ms)


def _release_all(bucket: BucketState, node: Node, fact: Fact, sentence: str) -> None:
    """Nothing is known of what the node complained about from here on."""
    node.leaves, node.gone = [], []
    divergence.compare_all(bucket, at_ms=fact.at_ms)
    for hold in list(bucket.ledger.holds()):
        subject = hold.subject
        if subject.kind not in _KEPT and node.name in (subject.node, hold.ground):
            bucket.ledger.release(subject, hold.ground, at_ms=fact.at_ms, sentence=sentence)
