"""Stories of nodes that are watched: what goes wrong, and what only looks like it."""

from routebook.events import Cause
from support.watch_events import EIGHT, Journal
from support.watch_sleepers import SLEEPERS, Nodes, Story


def journals_of(story: Story) -> dict[str, Journal]:
    """By node."""
    journals: dict[str, Journal] = {}

    def node(name: str) -> Journal:
        if name not in journals:
            journals[name] = Journal(name)
        return journals[name]

    story(node)
    return journals


def a_broker_flaps(node: Nodes) -> None:
    for name, at_s in (("ns-1", 0.0), ("ns-2", 1.0)):
        ns = node(name).at(at_s)
        ns.starts()
        ns.joins("broker-a")
        for _ in range(2):
            ns.after(60).leaves("broker-a", Cause.CONNECTION_CLOSED)
            ns.after(10).joins("broker-a")
        ns.after(3600).beats("broker-a")


def a_broker_is_restarted_by_hand(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a")
    for _ in range(2):
        ns.after(60).leaves("broker-a", Cause.UNREGISTER)
        ns.after(10).joins("broker-a")


def a_gap_is_nearly_too_long(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a")
    ns.after(60).beats("broker-a", gaps_s=[30, 90])
    ns.after(60).beats("broker-a", gaps_s=[91])
    ns.after(60).beats("broker-a", gaps_s=[95])
    ns.after(60).beats("broker-a")


def a_timeout_is_longer(node: Nodes) -> None:
    ns = node("ns-1")
    ns.starts()
    ns.joins("broker-a", timeout_ms=600_000)
    ns.joins("broker-b")
    ns.after(60).beats("broker-a", "broker-b", gaps_s=[100])
    ns.updates("broker-b", timeout_ms=600_000)
    ns.after(60).beats("broker-a", "broker-b", gaps_s=[100])


def a_broker_falls_silent(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a", "broker-b")
    ns.after(60).beats("broker-a", "broker-b")
    ns.after(60).beats("broker-b")
    ns.after(60).beats("broker-b")
    ns.after(10).leaves("broker-a")


def a_node_restarts_and_hears_of_nobody_at_first(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a", "broker-b")
    ns.after(60).beats("broker-a", "broker-b")
    ns.stops()
    ns.after(600).starts(brokers=2)
    ns.after(60).beats("broker-b")
    ns.after(60).beats("broker-a", "broker-b")


def one_node_loses_a_broker(node: Nodes) -> None:
    for name in ("ns-1", "ns-2", "ns-3"):
        ns = node(name)
        ns.starts()
        ns.joins("broker-a", topics=["orders", "refunds"])
        ns.joins("broker-b")
        ns.at(60).beats("broker-a", "broker-b")
        if name == "ns-2":
            ns.at(100).leaves("broker-a")
        for at_s in (120, 180, 240):
            ns.at(at_s).beats(*(["broker-b"] if name == "ns-2" else ["broker-a", "broker-b"]))
        if name == "ns-2":
            ns.at(300).joins("broker-a", topics=["orders", "refunds"])


def nodes_disagree_for_a_moment(node: Nodes) -> None:
    for name, at_s in (("ns-1", 100), ("ns-2", 160)):
        ns = node(name).begins("broker-a", "broker-b")
        ns.at(at_s).leaves("broker-a")
        ns.at(400).beats("broker-b")


def one_node_is_told_other_queues(node: Nodes) -> None:
    for name in ("ns-1", "ns-2"):
        ns = node(name)
        ns.starts()
        ns.joins("broker-a", topics=["orders", "refunds"])
        if name == "ns-2":
            ns.at(50).changes("broker-a", {"orders": (8, 8, 4, 0)})
        ns.at(200).beats("broker-a")


def changes_come_in_another_order(node: Nodes) -> None:
    for name in ("ns-1", "ns-2"):
        ns = node(name)
        ns.starts()
        names = ["orders", "refunds"] if name == "ns-1" else ["refunds", "orders"]
        ns.joins("broker-a", topics=[*names, "gone"])
        for topic in names:
            ns.after(1).changes("broker-a", {topic: (4, 4, 6, 0)})
        ns.after(1).changes("broker-a", {"gone": None})
        ns.at(300).beats("broker-a")


def a_slave_is_missing_on_one_node(node: Nodes) -> None:
    for name in ("ns-1", "ns-2"):
        ns = node(name).begins("broker-a")
        if name == "ns-1":
            ns.joins("broker-a", broker_id=1)
        ns.at(95).beats("broker-a")


def a_node_is_cut_off(node: Nodes) -> None:
    for name in ("ns-1", "ns-2"):
        ns = node(name).begins("broker-a", "broker-b")
        ns.at(60).beats("broker-a", "broker-b")
        if name == "ns-2":
            ns.at(70).leaves("broker-a")
            ns.at(1000).beats("broker-b")


def a_node_is_stopped(node: Nodes) -> None:
    for name in ("ns-1", "ns-2"):
        ns = node(name).begins("broker-a", "broker-b")
        if name == "ns-1":
            ns.at(60).stops()
        else:
            ns.at(70).leaves("broker-a")
            ns.at(1000).beats("broker-b")


def a_node_is_alone_from_the_beginning(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a")
    ns.at(1000).beats("broker-a")
    other = node("ns-2")
    other.starts()


def a_journal_begins_in_the_middle(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a")
    ns.joins("broker-b", topics=["orders", "refunds"])
    ns.at(1000).beats("broker-a", "broker-b")
    other = node("ns-2")
    other.skip(5000)
    for at_s in range(100, 1001, 60):
        other.at(at_s).beats("broker-b")


def brokers_vanish_together(node: Nodes) -> None:
    ns = node("ns-1").begins(*(f"broker-{number}" for number in range(10)))
    for number in range(5):
        ns.after(10).leaves(f"broker-{number}", Cause.IDLE)
    ns.after(100).beats(*(f"broker-{number}" for number in range(5, 10)))


def brokers_are_shut_down_together(node: Nodes) -> None:
    ns = node("ns-1").begins(*(f"broker-{number}" for number in range(10)))
    for number in range(9):
        ns.after(1).leaves(f"broker-{number}", Cause.UNREGISTER)


def brokers_die_one_by_one(node: Nodes) -> None:
    ns = node("ns-1").begins(*(f"broker-{number}" for number in range(10)))
    for number in range(9):
        ns.after(40).leaves(f"broker-{number}")


def two_brokers_of_which_one_flaps(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a", "broker-b")
    for _ in range(3):
        ns.after(8).leaves("broker-a", Cause.CONNECTION_CLOSED)
        ns.after(8).joins("broker-a")
    ns.leaves("broker-b", Cause.CONNECTION_CLOSED)


def the_guard_holds_brokers(node: Nodes) -> None:
    ns = node("ns-1")
    ns.starts()
    ns.at(50).engages_guard(silent=12, live=20)
    ns.at(80).engages_guard(silent=14, live=20)
    ns.at(300).releases_guard()


def a_registration_grows(node: Nodes) -> None:
    for name in ("ns-1", "ns-2"):
        ns = node(name)
        ns.starts()
        ns.joins("broker-a", topics=[f"topic-{number:02}" for number in range(40)])
        ns.after(60).changes("broker-a", {"one-more": EIGHT, "and-more": EIGHT, "most": EIGHT})
        ns.after(60).changes("broker-a", {"most": (4, 4, 6, 0)})
        ns.after(60).changes("broker-a", {f"topic-{number:02}": None for number in range(10)})


def clients_ask_for_a_typo(node: Nodes) -> None:
    ns = node("ns-1")
    ns.starts()
    ns.after(60).is_asked({"oders": 301, "once": 299})
    ns.after(60).is_asked({"oders": 400})
    ns.after(60).is_asked({"oders": 10})
    ns.after(60).is_asked({"oders": 10})


def clients_ask_often_in_a_short_window(node: Nodes) -> None:
    ns = node("ns-1")
    ns.starts()
    ns.after(10).is_asked({"oders": 60}, window_s=10)
    ns.after(10).is_asked({"oders": 40}, window_s=10)
    ns.after(10).is_asked({}, window_s=10)


def clients_ask_at_the_end_of_a_node(node: Nodes) -> None:
    """Its last window is cut short, and counts what came at once."""
    ns = node("ns-1")
    ns.starts()
    ns.after(60).is_asked({})
    ns.after(0.2).is_asked({"oders": 3}, window_s=0.2)
    ns.stops()


def clients_ask_for_everything(node: Nodes) -> None:
    ns = node("ns-1")
    ns.starts()
    ns.after(60)
    ns.is_asked({f"a-{number}": 200 for number in range(10)})
    ns.is_asked({f"b-{number}": 200 for number in range(10)})
    ns.after(60).is_asked({"a-1": 200})
    ns.after(60).is_asked({"a-1": 200})


def a_node_is_killed(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a")
    ns.after(60).beats("broker-a")
    ns.is_killed(back_s=300)
    ns.after(1).starts(brokers=1)


def a_killed_node_had_answered_since_its_last_record(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a")
    ns.after(60).beats("broker-a")
    ns.is_killed(back_s=300, alive_s=52)
    ns.after(1).starts(brokers=1)


def a_node_is_killed_and_its_clock_set_back(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a")
    ns.after(600).beats("broker-a")
    ns.sets_clock(-400)
    ns.is_killed(back_s=60)
    ns.after(1).starts(brokers=1)


def a_disk_is_full(node: Nodes) -> None:
    for name in ("ns-1", "ns-2"):
        ns = node(name).begins("broker-a", "broker-b")
        if name == "ns-1":
            ns.at(200).loses(7, since_s=100)
            ns.at(260).restates()
        ns.at(400).beats("broker-a", "broker-b")


def a_segment_is_missing(node: Nodes) -> None:
    for name in ("ns-1", "ns-2"):
        ns = node(name).begins("broker-a", "broker-b")
        ns.at(60).beats("broker-a", "broker-b")
        if name == "ns-1":
            ns.skip(500)
            ns.silently(940).beats("broker-a", gaps_s=[30])
        else:
            ns.at(100).leaves("broker-b")
            ns.at(1000).beats("broker-a", gaps_s=[30])


def a_broker_is_away_in_front_of_clocks_that_differ(node: Nodes) -> None:
    """It comes back with another topic before the other clock shows that it left."""
    for name, ahead_s in (("ns-1", 0.0), ("ns-2", 300.0)):
        ns = node(name).at(ahead_s)
        ns.starts()
        ns.joins("broker-a")
        ns.after(600).leaves("broker-a", Cause.UNREGISTER)
        ns.after(130).joins("broker-a", topics=["orders", "refunds"])
        ns.after(900).beats("broker-a")


def a_clock_is_years_ahead(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a", "broker-b")
    other = node("ns-2").begins("broker-a", "broker-b")
    other.sets_clock(20 * 365 * 86_400).beats("broker-a", "broker-b")
    ns.at(100).leaves("broker-a")


def two_nodes_have_one_id(node: Nodes) -> None:
    ns = node("ns-1")
    ns.starts()
    for _ in range(5):
        ns.after(60).is_asked({})
    again = Journal(ns.node, at_s=1000)
    again.starts()
    ns.records += again.records


def a_folder_is_there_twice(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a")
    ns.records += list(ns.records)


STORIES: tuple[Story, ...] = (
    a_broker_flaps,
    a_broker_is_restarted_by_hand,
    a_gap_is_nearly_too_long,
    a_timeout_is_longer,
    a_broker_falls_silent,
    a_node_restarts_and_hears_of_nobody_at_first,
    one_node_loses_a_broker,
    nodes_disagree_for_a_moment,
    one_node_is_told_other_queues,
    changes_come_in_another_order,
    a_slave_is_missing_on_one_node,
    a_node_is_cut_off,
    a_node_is_stopped,
    a_node_is_alone_from_the_beginning,
    a_journal_begins_in_the_middle,
    brokers_vanish_together,
    brokers_are_shut_down_together,
    brokers_die_one_by_one,
    two_brokers_of_which_one_flaps,
    the_guard_holds_brokers,
    a_registration_grows,
    clients_ask_for_a_typo,
    clients_ask_often_in_a_short_window,
    clients_ask_at_the_end_of_a_node,
    clients_ask_for_everything,
    a_node_is_killed,
    a_killed_node_had_answered_since_its_last_record,
    a_node_is_killed_and_its_clock_set_back,
    a_disk_is_full,
    a_segment_is_missing,
    a_clock_is_years_ahead,
    a_broker_is_away_in_front_of_clocks_that_differ,
    two_nodes_have_one_id,
    a_folder_is_there_twice,
    *SLEEPERS,
)
