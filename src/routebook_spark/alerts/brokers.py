"""Brokers: what the facts say of a group and its processes at a node.

Comes first among those that look at a broker: the alerts are about what it leaves in the state.
"""

from routebook_spark.alerts.bucket_state import BucketState, Claim, Group, Member, Node
from routebook_spark.alerts.facts import Fact
from routebook_spark.gold.heartbeats import UNKNOWN_TIMEOUT_MS

REPLACED = "replaced"  # by a process whose registration is told next


def find_claim(bucket: BucketState, group: Group, node: Node) -> tuple[bool, Claim | None]:
    """Whether it is known what ``node`` says of a group, and what: None if it does not have it."""
    claim = bucket.claims.get(group, {}).get(node.name)
    if not node.sure or (claim is None and not node.whole):
        return False, None
    return True, claim if claim is not None and claim.present and not claim.arriving else None


def said_since_ms(bucket: BucketState, group: Group, node: Node) -> int:
    """Since when ``node`` says of a group what it says; what it said before that is not kept."""
    claim = bucket.claims.get(group, {}).get(node.name)
    return node.whole_ms if claim is None else claim.said_ms


def set_back(bucket: BucketState, node: Node, *, at_ms: int) -> None:
    """The clock of ``node`` went back: what it says it has been saying all the time."""
    node.whole_ms = min(node.whole_ms, at_ms)
    for claim in bucket.each_claim(node.name):
        claim.said_ms = min(claim.said_ms, at_ms)


def take(bucket: BucketState, node: Node, fact: Fact) -> list[Member]:
    """Note what a fact says of a broker; returns processes that came back or left unwanted."""
    before = _saying(bucket, node, fact)
    changed = _take(bucket, node, fact)
    claim = bucket.claims[fact.cluster or "", fact.broker or ""][node.name]
    if _saying(bucket, node, fact) != before:
        claim.said_ms = fact.at_ms
    return changed


def _saying(bucket: BucketState, node: Node, fact: Fact) -> tuple[object, ...]:
    claim = bucket.claims.get((fact.cluster or "", fact.broker or ""), {}).get(node.name)
    if claim is None:
        return ()
    return (
        *(claim.present, claim.arriving, claim.told),
        *(claim.addrs, claim.topics, claim.digest),
    )


def _take(bucket: BucketState, node: Node, fact: Fact) -> list[Member]:
    match fact.type:
        case "BrokerRegistered":
            return _registered(bucket, node, fact)
        case "BrokerLeft":
            return _left(bucket, node, fact)
        case "TopicsChanged":
            _change_topics(_claim(bucket, node, fact), fact)
        case "RegistrationCompleted":
            _claim(bucket, node, fact).arriving = False
            _heard(bucket, node, fact)
        case "GroupRestated":
            _restated(bucket, node, fact)
        case "HeartbeatGaps" | "BrokerConfirmed" | "BrokerUpdated":
            _claim(bucket, node, fact)
            _heard(bucket, node, fact)
    return []


def forget(bucket: BucketState, node: Node, *, unstated: bool = False) -> None:
    """The node does not have its brokers any more; or those only that it has not restated."""
    kept = set()
    for claim in bucket.each_claim(node.name):
        if unstated and claim.stated:
            kept.add((claim.cluster, claim.broker))
        else:
            bucket.drop_claim(claim)
    for member in bucket.each_member(node.name):
        if (member.cluster, member.broker) not in kept:
            member.listed = False


def _registered(bucket: BucketState, node: Node, fact: Fact) -> list[Member]:
    claim = _claim(bucket, node, fact)
    if fact.fresh:
        claim.arriving = claim.told = True
        claim.topics, claim.digest, claim.size_bytes = 0, 0, 0
    claim.addrs = _listing(fact)
    changed = _take_off(bucket, node, fact)
    before = _find(bucket, node, fact)
    returned = before is not None and not before.listed and before.left_ms > 0
    member = _heard(bucket, node, fact)
    member.addr = fact.addr or ""
    return [*changed, member] if returned else changed


def _take_off(bucket: BucketState, node: Node, fact: Fact) -> list[Member]:
    """The same process under its former id, if it changed its role."""
    assert fact.cluster is not None
    assert fact.broker is not None
    former = [
        member
        for (broker_id, name), member in bucket.members.get((fact.cluster, fact.broker), {}).items()
        if name == node.name and broker_id != fact.broker_id
        if member.listed and member.addr == fact.addr
    ]
    for member in former:
        member.listed, member.left_ms = False, fact.at_ms
    return former


def _left(bucket: BucketState, node: Node, fact: Fact) -> list[Member]:
    claim = _claim(bucket, node, fact)
    claim.addrs = _listing(fact)
    if not fact.addrs and fact.cause != REPLACED:
        claim.present = claim.arriving = claim.told = False
        claim.addrs = None
        claim.topics, claim.digest, claim.size_bytes = 0, 0, 0
    member = _find(bucket, node, fact)
    if member is None:
        return []
    member.listed, member.left_ms = False, fact.at_ms
    return [member]


def _restated(bucket: BucketState, node: Node, fact: Fact) -> None:
    claim = _claim(bucket, node, fact)
    if not fact.continued:
        claim.told, claim.stated, claim.arriving = True, True, False
        claim.topics, claim.digest, claim.size_bytes = 0, 0, 0
        claim.addrs = _listing(fact)
        group = bucket.members.get((claim.cluster, claim.broker), {})
        for (_, name), member in group.items():
            if name == node.name:
                member.listed = False
        for broker_id, addr, timeout_ms in fact.addrs or []:
            _process(bucket, node, fact, int(broker_id), addr, int(timeout_ms or 0))
    _change_topics(claim, fact)


def _change_topics(claim: Claim, fact: Fact) -> None:
    claim.digest ^= fact.digest
    claim.size_bytes += fact.bytes_more
    claim.topics += fact.topics_more


def _claim(bucket: BucketState, node: Node, fact: Fact) -> Claim:
    """What ``node`` says of the group; it has it from now on, if it had not."""
    assert fact.cluster is not None
    assert fact.broker is not None
    by_node = bucket.claims.setdefault((fact.cluster, fact.broker), {})
    claim = by_node.get(node.name)
    if claim is None:
        claim = Claim(fact.cluster, fact.broker, node.name, fact.at_ms)
        by_node[node.name] = claim
    claim.present = True
    return claim


def _find(bucket: BucketState, node: Node, fact: Fact) -> Member | None:
    assert fact.cluster is not None
    assert fact.broker is not None
    group = bucket.members.get((fact.cluster, fact.broker), {})
    return group.get((fact.broker_id or 0, node.name))


def _heard(bucket: BucketState, node: Node, fact: Fact) -> Member:
    """The process the fact is about gave a sign of life."""
    return _process(bucket, node, fact, fact.broker_id or 0, fact.addr or "", fact.timeout_ms)


def _process(
    bucket: BucketState, node: Node, fact: Fact, broker_id: int, addr: str, timeout_ms: int | None
) -> Member:
    assert fact.cluster is not None
    assert fact.broker is not None
    member = bucket.members.get((fact.cluster, fact.broker), {}).get((broker_id, node.name))
    if member is None:
        member = Member(
            fact.cluster,
            fact.broker,
            broker_id,
            node.name,
            addr,
            timeout_ms=UNKNOWN_TIMEOUT_MS,
            heard_ms=fact.at_ms,
        )
        bucket.put(member)
    if timeout_ms:
        member.timeout_ms = timeout_ms
    member.listed, member.heard_ms = True, fact.at_ms
    return member


def _listing(fact: Fact) -> str:
    """The addresses of the group by id, always in the same order."""
    by_id = sorted(fact.addrs or [], key=lambda parts: (len(parts[0]), parts))
    return ", ".join(f"{broker_id}={addr}" for broker_id, addr, *_ in by_id)
