import pickle

import pytest

from routebook.client.errors import (
    AllNodesFailed,
    BadAnswer,
    CannotConnect,
    ConnectionLost,
    LeavingNode,
    NameServerError,
    NoAnswer,
    NodeError,
    NoNameServers,
    NotReady,
    Refused,
    TopicNotFound,
)
from routebook.wire.address import Address

NODE = Address("10.0.0.1", 9876)
OTHER = Address("fe80::1%eth0", 9876)

ERRORS: list[NameServerError] = [
    NameServerError("this client is closed"),
    NoNameServers("nobody said where they are"),
    NodeError(NODE, "was odd"),
    CannotConnect(NODE, "nobody listens"),
    ConnectionLost(NODE, "it closed the connection"),
    NoAnswer(NODE, 0.25),
    BadAnswer(OTHER, "the body is not a topic route"),
    Refused(NODE, 318, 16, "not from the network"),
    TopicNotFound(NODE, 105, 17, "No topic route info"),
    NotReady(NODE, 105, 1, None),
    LeavingNode(NODE, 105, 1500, "please go away"),
    AllNodesFailed([NoAnswer(NODE, 3.0), Refused(OTHER, 105, 1, "busy")]),
]


def name_of(error: NameServerError) -> str:
    return type(error).__name__


@pytest.mark.parametrize("error", ERRORS, ids=name_of)
def test_an_error_survives_the_way_from_another_process(error: NameServerError) -> None:
    arrived = pickle.loads(pickle.dumps(error))

    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert repr(vars(arrived)) == repr(vars(error))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (CannotConnect(NODE, "nobody listens"), "10.0.0.1:9876: nobody listens"),
        (NoAnswer(NODE, 0.25), "10.0.0.1:9876: no answer within 0.25 s"),
        (BadAnswer(OTHER, "half a frame"), "[fe80::1%eth0]:9876: half a frame"),
        (
            Refused(NODE, 318, 16, "not from the network"),
            "10.0.0.1:9876: refused UPDATE_NAMESRV_CONFIG (318) with NO_PERMISSION (16):"
            " not from the network",
        ),
        (NotReady(NODE, 105, 1, None), "with SYSTEM_ERROR (1): no reason"),
        (Refused(NODE, 9999, 8888, "what?"), "10.0.0.1:9876: refused 9999 with 8888: what?"),
    ],
    ids=lambda given: name_of(given) if isinstance(given, NameServerError) else "",
)
def test_an_error_says_which_node_did_what(error: NodeError, text: str) -> None:
    assert text in str(error)


def test_a_refusal_can_be_told_apart_by_code_and_remark() -> None:
    error = Refused(NODE, 101, 22, "No config item")

    assert (error.address, error.code, error.remark) == (NODE, 22, "No config item")


def test_a_long_remark_does_not_flood_the_message() -> None:
    error = Refused(NODE, 105, 1, "x" * 1_000_000)

    assert len(str(error)) < 2_000
    assert len(error.remark or "") == 1_000_000


def test_when_all_failed_each_node_and_its_reason_is_named() -> None:
    failures = [CannotConnect(NODE, "nobody listens"), NoAnswer(OTHER, 1.5)]

    error = AllNodesFailed(failures)

    assert error.failures == tuple(failures)
    assert str(error) == (
        "no NameServer answered: 10.0.0.1:9876: nobody listens;"
        " [fe80::1%eth0]:9876: no answer within 1.5 s"
    )
