"""Whether a registration finds room in memory, decided before anything is changed."""

from routebook.state import costs
from routebook.state.account import Account, host_of
from routebook.state.model import Group, Registration
from routebook.state.topics import TopicTable


def no_room_for(
    registration: Registration, group: Group | None, topics: TopicTable, account: Account
) -> str | None:
    """Why ``registration`` does not fit, in one sentence; None when it does.

    Usually there is room for the most it could take, and nothing needs to be counted.
    """
    payer = host_of(registration.peer)
    held = group.cost if group is not None else 0
    room = account.room(payer, held)
    told = len(registration.topics)
    others = _broker(registration) + costs.SHAPE * registration.shapes
    others += (
        costs.mappings(registration.mappings)
        if registration.mappings_cost is None
        else registration.mappings_cost
    )
    if costs.ENTRY_AT_MOST * told + others <= room:
        return None
    known = group.registered if group is not None else {}
    new = [topic for topic in registration.topics if topic not in known]
    fresh = [topic for topic in new if not topics.holds(topic)]
    amount = costs.ENTRY * len(new) + costs.TOPIC * len(fresh) + costs.texts(fresh) + others
    amount -= costs.SHAPE * min(registration.shapes, group.shapes if group is not None else 0)
    if group is not None:
        holder = group.members.get(registration.broker_id)
        amount -= holder.cost if holder is not None else 0
        amount -= topics.cost_of_mappings(group, registration.mappings)
    moved = held if group is not None and group.payer != payer else 0
    return account.refusal(payer, amount, held, moved=moved)


def _broker(registration: Registration) -> int:
    names = (
        registration.cluster,
        registration.name,
        registration.zone,
        registration.addr,
        registration.ha_addr,
    )
    return costs.broker(names, registration.filter_servers or ())
