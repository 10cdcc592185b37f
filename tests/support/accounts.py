"""What a table's account should say, added up from nothing."""

from collections import Counter

from routebook.state import costs
from routebook.state.account import Kind
from routebook.state.routes import RouteTable


def check_account(table: RouteTable) -> None:
    """Charged to the byte what the table holds, to whom and for what; nothing abandoned is left."""
    while table.topics.clear_some():
        pass
    kinds = dict.fromkeys(Kind, 0)
    peers: Counter[str] = Counter()
    paid: Counter[tuple[str, str]] = Counter()
    topics = {topic for group in table.members.groups() for topic in group.registered}
    for topic in topics:
        oldest = next(iter(table.topics.queues(topic)))
        paid[oldest.cluster, oldest.name] += costs.TOPIC + costs.text(topic)
    for group in table.members.groups():
        of_topics = costs.ENTRY * len(group.registered) + costs.SHAPE * group.shapes
        of_topics += paid[group.cluster, group.name]
        of_mappings = costs.mappings(table.topics.mappings_of(group))
        of_brokers = sum(member.cost for member in group.members.values())
        assert all(member.cost >= costs.BROKER for member in group.members.values())
        assert group.cost == of_topics + of_mappings + of_brokers
        kinds[Kind.TOPICS] += of_topics
        kinds[Kind.MAPPINGS] += of_mappings
        kinds[Kind.BROKERS] += of_brokers
        peers[group.payer] += group.cost
    account = table.account
    assert account.used == kinds
    assert account.tables == sum(kinds.values())
    assert {peer: account.held_by(peer) for peer in peers} == peers
    assert sum(peers.values()) == account.tables
