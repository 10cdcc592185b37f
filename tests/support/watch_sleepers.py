"""Stories of nodes that were no witnesses for a while, or are others than before."""

from collections.abc import Callable

from routebook.events import Cause
from support.watch_events import Journal

Nodes = Callable[[str], Journal]
Story = Callable[[Nodes], None]


def a_node_sleeps_and_says_so(node: Nodes) -> None:
    """Its brokers had closed their connections, and come back to it."""
    brokers = ("broker-a", "broker-b", "broker-c")
    for name in ("ns-1", "ns-2"):
        ns = node(name).begins(*brokers)
        ns.at(60).beats(*brokers)
        if name == "ns-2":
            ns.at(70).sleeps(135)
            for broker in brokers:
                ns.after(0.002).leaves(broker, Cause.CONNECTION_CLOSED)
                ns.after(0.002).joins(broker)
            ns.at(240).beats(*brokers, gaps_s=[30, 150])
        ns.at(600).beats(*brokers)


def a_node_is_frozen_and_does_not_know(node: Nodes) -> None:
    """As nodes of earlier versions: it blames its brokers when it wakes."""
    brokers = ("broker-a", "broker-b", "broker-c")
    for name in ("ns-1", "ns-2"):
        ns = node(name).begins(*brokers)
        ns.at(60).beats(*brokers)
        if name == "ns-2":
            ns.silently(135)
            for broker in brokers:
                ns.leaves(broker, Cause.EXPIRED)
                ns.after(0.004).joins(broker)
            ns.at(240).beats(*brokers, gaps_s=[30, 165])
        ns.at(600).beats(*brokers)


def a_node_sleeps_and_what_it_says_of_it_gets_lost(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a", "broker-b")
    ns.at(60).beats("broker-a", "broker-b")
    ns.skip(3)
    ns.silently(180).beats("broker-a", "broker-b", gaps_s=[30, 150])


def a_node_sleeps_and_what_was_before_gets_lost(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a", "broker-b")
    ns.at(60).beats("broker-a", "broker-b")
    ns.skip(3)
    ns.silently(60).sleeps(30)


def a_broker_dies_while_one_node_sleeps(node: Nodes) -> None:
    """The node finds out a lease after it woke up, longer than nodes may disagree."""
    for name in ("ns-1", "ns-2"):
        ns = node(name).begins("broker-a", "broker-b")
        ns.at(60).beats("broker-a", "broker-b")
        if name == "ns-1":
            ns.at(180).leaves("broker-a")
        else:
            ns.at(70).sleeps(180)
            ns.at(310).beats("broker-b")
            ns.at(350).leaves("broker-a")
        ns.at(900).beats("broker-b")


def a_node_sleeps_and_then_disagrees(node: Nodes) -> None:
    for name in ("ns-1", "ns-2"):
        ns = node(name).begins("broker-a", "broker-b")
        ns.at(60).beats("broker-a", "broker-b")
        if name == "ns-1":
            ns.at(100).leaves("broker-a", Cause.UNREGISTER)
        else:
            ns.at(70).sleeps(60)
        ns.at(900).beats("broker-b")


def a_broker_dies_in_earnest_after_a_node_slept(node: Nodes) -> None:
    ns = node("ns-1").begins(*(f"broker-{number}" for number in range(10)))
    ns.at(50).sleeps(3)
    for number in range(5):
        ns.after(4).leaves(f"broker-{number}", Cause.EXPIRED)
    ns.after(100).beats(*(f"broker-{number}" for number in range(5, 10)))


def a_node_naps(node: Nodes) -> None:
    """Too short to be told; those that disagree go on to."""
    for name in ("ns-1", "ns-2"):
        ns = node(name).begins("broker-a", "broker-b")
        if name == "ns-1":
            ns.at(20).leaves("broker-b", Cause.UNREGISTER)
            ns.at(150).sleeps(2)
        ns.at(300).beats("broker-a")


def a_machine_is_suspended(node: Nodes) -> None:
    """The monotonic clock stands still meanwhile, and the node has not noticed."""
    ns = node("ns-1").begins("broker-a", "broker-b")
    ns.at(60).beats("broker-a", "broker-b")
    ns.sets_clock(3600)
    for broker in ("broker-a", "broker-b"):
        ns.after(0.5).leaves(broker, Cause.EXPIRED)
        ns.after(0.5).joins(broker)
    ns.after(40).beats("broker-a", "broker-b")


def a_clock_is_set_back(node: Nodes) -> None:
    for name in ("ns-1", "ns-2"):
        ns = node(name).begins("broker-a", "broker-b")
        ns.at(600).beats("broker-a", "broker-b")
        if name == "ns-2":
            ns.sets_clock(-400)
        ns.after(1).leaves("broker-a", Cause.UNREGISTER)
        ns.after(600).beats("broker-b")


def a_disk_is_replaced(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a")
    ns.at(600).beats("broker-a")
    other = node("ns-2").begins("broker-a")
    other.at(60).beats("broker-a")
    again = Journal(other.node, at_s=300).begins("broker-a")
    again.after(300).beats("broker-a")
    other.records += again.records
    other.lives = {len(other.records) - len(again.records): "second"}


def two_nodes_of_one_id_have_a_folder_each(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a")
    ns.at(600).beats("broker-a")
    again = Journal(ns.node, at_s=300).begins("broker-a")
    again.after(300).beats("broker-a")
    ns.lives = {len(ns.records): "second"}
    ns.records += again.records


def a_clock_is_set_back_and_a_broker_beats_on(node: Nodes) -> None:
    ns = node("ns-1").begins("broker-a", "broker-b")
    ns.at(600).beats("broker-a", "broker-b")
    ns.sets_clock(-400)
    ns.after(30).beats("broker-a", "broker-b")
    ns.after(60).beats("broker-a", "broker-b")


def a_disk_is_replaced_and_the_clock_set_back(node: Nodes) -> None:
    """Its last life had told of everything up to 600 s when the next one began, at 300 s."""
    ns = node("ns-1").begins("broker-a", "broker-b")
    ns.at(600).beats("broker-a", "broker-b")
    again = Journal(ns.node, at_s=300).begins("broker-a", "broker-b", "broker-c")
    again.at(330).loses(7, since_s=320)
    ns.lives = {len(ns.records): "second"}
    ns.records += again.records


def a_disk_is_replaced_and_the_clock_set_back_by_far(node: Nodes) -> None:
    """To before the first life: only that it goes on shows that it is no old copy."""
    ns = node("ns-1")
    ns.at(3600).begins("broker-a").at(3700).beats("broker-a")
    again = Journal(ns.node).begins("broker-a")
    again.at(4000).loses(7, since_s=3990)
    ns.lives = {len(ns.records): "second"}
    ns.records += again.records


SLEEPERS: tuple[Story, ...] = (
    a_node_sleeps_and_says_so,
    a_node_is_frozen_and_does_not_know,
    a_broker_dies_while_one_node_sleeps,
    a_node_sleeps_and_then_disagrees,
    a_broker_dies_in_earnest_after_a_node_slept,
    a_node_naps,
    a_node_sleeps_and_what_it_says_of_it_gets_lost,
    a_node_sleeps_and_what_was_before_gets_lost,
    a_machine_is_suspended,
    a_clock_is_set_back,
    a_disk_is_replaced,
    two_nodes_of_one_id_have_a_folder_each,
    a_clock_is_set_back_and_a_broker_beats_on,
    a_disk_is_replaced_and_the_clock_set_back,
    a_disk_is_replaced_and_the_clock_set_back_by_far,
)
