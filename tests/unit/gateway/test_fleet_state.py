"""What nodes are together: in a sentence, since when, and where they differ."""

from time import monotonic

import msgspec
import pytest

from routebook.client.errors import CannotConnect
from routebook.client.node import Node
from routebook.gateway.fleet_state import LASTING_MS, FleetState, State
from routebook.gateway.nodes import Aged, Fleet, FollowedNode, NodeView
from routebook.wire.address import Address
from routebook.wire.overview import Condition, GroupTold, MemberTold

WELL = Condition(
    waiting_for_service=False,
    draining=False,
    journal_failing=False,
    memory_pressed=False,
    held=0,
    brokers=1,
    unconfirmed=0,
    topics=3,
    routes=3,
)


def group(broker: str, digest: str = "0123456789abcdef", member_id: int = 0) -> GroupTold:
    member = MemberTold(
        id=member_id,
        addr="10.0.0.1:10911",
        ha_addr=None,
        generation=1,
        epoch=0,
        heartbeat_timeout_ms=120_000,
        confirmed=True,
        held=False,
        peer="10.0.0.1:40112",
    )
    return GroupTold(
        cluster="c",
        broker=broker,
        zone=None,
        acting_master=False,
        topics=3,
        digest=digest,
        rev=1,
        members=(member,),
    )


class Stage:
    """Two nodes, and a clock."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.fleet = Fleet([Node(Address("10.0.0.1", 9876)), Node(Address("10.0.0.2", 9876))])
        self.state = FleetState(self.fleet, wall_ms=lambda: self.now_ms)
        self._rev = 0

    def says(self, number: int, *groups: GroupTold, condition: Condition = WELL) -> None:
        """Have a node say this, and be looked at."""
        self._rev += 1
        node: FollowedNode = self.fleet.nodes[number]
        node.ping_s, node.answering, node.offers_summary = 0.001, True, True
        node.view = Aged(
            NodeView(
                node=f"ns-{number}",
                boot="b",
                rev=self._rev,
                skew_ms=0,
                condition=condition,
                groups={each.key: each for each in groups},
                silences=None,
            ),
            monotonic(),
        )
        self.state.look()

    def both_say(self, *groups: GroupTold, **changes: object) -> None:
        condition = msgspec.structs.replace(WELL, **changes)
        for number in range(2):
            self.says(number, *groups, condition=condition)

    def how(self) -> State:
        return self.state.sentence.state

    def look_at(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.state.look()


def test_before_anybody_answered_nothing_is_known() -> None:
    stage = Stage()
    assert stage.how() is State.UNKNOWN
    assert stage.state.sentence.text.startswith("No node answers (10.0.0.1:9876 and")


def test_all_is_well_when_nodes_agree() -> None:
    stage = Stage()
    stage.both_say(group("broker-a"))
    assert stage.state.sentence.text == "All is well: 2 nodes agree on 1 broker and 3 topics."
    assert stage.state.sentence.reasons == ()


def test_nodes_that_differ_for_long_are_trouble() -> None:
    stage = Stage()
    stage.both_say(group("broker-a"))
    stage.says(1, group("broker-a", "fedcba9876543210"))
    since_ms = stage.now_ms
    stage.look_at(since_ms + LASTING_MS - 1)
    assert stage.how() is State.WELL
    stage.look_at(since_ms + LASTING_MS)
    assert stage.how() is State.TROUBLE
    assert stage.state.sentence.reasons[0].see == "/v1/differences"
    assert stage.state.sentence.since_ms == since_ms + LASTING_MS
    stage.look_at(since_ms + LASTING_MS + 5000)
    assert stage.state.sentence.since_ms == since_ms + LASTING_MS  # it has been so since then
    stage.says(1, group("broker-a"))
    (passed,) = stage.state.converged
    assert (passed.key, passed.from_ms) == (("c", "broker-a"), since_ms)
    assert passed.to_ms == stage.now_ms
    assert stage.how() is State.WELL


def test_a_group_that_one_node_lacks_is_a_difference_until_it_is_gone_everywhere() -> None:
    stage = Stage()
    stage.both_say()
    stage.says(0, group("broker-a"))
    assert stage.state.differing == {("c", "broker-a"): stage.now_ms}
    stage.says(0)
    assert stage.state.differing == {}


def test_a_digest_that_is_being_worked_out_differs_from_nothing() -> None:
    stage = Stage()
    stage.both_say(group("broker-a"))
    stage.says(1, group("broker-a", ""))
    assert stage.state.differing == {}


def test_a_node_that_does_not_answer_differs_from_nobody() -> None:
    stage = Stage()
    stage.both_say(group("broker-a"))
    stage.says(1, group("broker-a", "fedcba9876543210"))
    gone = stage.fleet.nodes[1]
    gone.answering, gone.trouble = False, CannotConnect(gone.address, "connection refused")
    stage.state.look()
    assert stage.state.differing == {}
    assert stage.how() is State.ATTENTION
    assert "connection refused" in stage.state.sentence.text
    assert stage.state.sentence.text.endswith("The node that answers knows 1 broker and 3 topics.")


@pytest.mark.parametrize(
    ("changes", "state", "said"),
    [
        ({"journal_failing": True}, State.TROUBLE, "cannot write its journal"),
        ({"memory_pressed": True}, State.TROUBLE, "is short of memory"),
        ({"held": 1}, State.ATTENTION, "holds 1 silent broker."),
        ({"unconfirmed": 1}, State.WELL, "All is well"),
    ],
)
def test_what_a_node_says_of_itself_counts(
    changes: dict[str, object], state: State, said: str
) -> None:
    stage = Stage()
    stage.both_say(group("broker-a"), **changes)
    assert stage.how() is state
    assert said in stage.state.sentence.text


def test_a_group_without_a_master_is_to_be_looked_at() -> None:
    stage = Stage()
    stage.both_say(group("broker-a", member_id=1))
    assert stage.state.sentence.text.startswith("broker-a has no master.")
    assert stage.how() is State.ATTENTION
