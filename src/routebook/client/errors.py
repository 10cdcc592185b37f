"""What can go wrong when NameServers are asked.

NameServerError
  NoNameServers        no way of finding NameServers gave an address
  AllNodesFailed       every node was tried; ``failures`` says what each one did
  NodeError            one node, and what it did
    CannotConnect        its name does not resolve, nobody listens, TLS fails, ...
    ConnectionLost       the connection broke before the answer came
    NoAnswer             it took the request and stayed silent until the deadline
    BadAnswer            it answered something that is not an answer to the request
    RequestTooLarge      it would hang up on so large a request, which was not sent
    Refused              it answered with another code than SUCCESS
      TopicNotFound        no route for the topic
      NotReady             it has just started and gives no routes yet
      LeavingNode          it is shutting down and wants to be left alone (GO_AWAY)

``args`` are what an error was made of, so that it can be pickled: executors send errors home.
"""

from collections.abc import Iterable, Sequence

from routebook.plain import one_line
from routebook.wire.address import Address
from routebook.wire.codes import RequestCode, ResponseCode

MAX_REMARK = 1000  # characters of a remark in a message


class NameServerError(Exception):
    """NameServers could not be asked, or did not answer as hoped."""


class NoNameServers(NameServerError):
    """No way of finding NameServers gave an address."""


class NodeError(NameServerError):
    """One node, and what it did."""

    def __init__(self, address: Address, what: str) -> None:
        super().__init__(address, what)
        self.address = address
        self.what = what

    def __str__(self) -> str:
        return f"{self.address}: {self.what}"


class CannotConnect(NodeError):
    """No connection could be made."""


class ConnectionLost(NodeError):
    """The connection broke before the answer came."""


class NoAnswer(NodeError):
    """The node took the request and stayed silent until the deadline."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        super().__init__(address, f"no answer within {timeout_s:.3g} s")
        self.args = (address, timeout_s)


class BadAnswer(NodeError):
    """The node answered something that is not an answer to the request."""


class RequestTooLarge(NodeError):
    """The request exceeds the limit of a frame and was not sent."""


class Refused(NodeError):
    """The node answered with another code than SUCCESS."""

    def __init__(self, address: Address, request: int, code: int, remark: str | None) -> None:
        reason = (remark or "no reason")[:MAX_REMARK]
        super().__init__(
            address,
            f"refused {_name(RequestCode, request)} with {_name(ResponseCode, code)}: {reason}",
        )
        self.args = (address, request, code, remark)
        self.code = code
        self.remark = remark


class TopicNotFound(Refused):
    """The node knows no route for the topic."""


class NotReady(Refused):
    """The node has just started and gives no routes yet."""


class LeavingNode(Refused):
    """The node is shutting down and wants to be left alone."""


class AllNodesFailed(NameServerError):
    """Every node was tried and none answered."""

    def __init__(self, failures: Sequence[NodeError]) -> None:
        self.failures = tuple(failures)
        super().__init__(self.failures)

    def __str__(self) -> str:
        return "no NameServer answered: " + "; ".join(told_once(self.failures))


def told_once(failures: Iterable[NodeError]) -> list[str]:
    """A sentence for each thing that nodes did, and which nodes that were."""
    nodes: dict[str, list[str]] = {}
    for failure in failures:
        nodes.setdefault(failure.what, []).append(str(failure.address))
    return [f"{', '.join(addresses)}: {what}" for what, addresses in nodes.items()]


def _name(codes: type[RequestCode] | type[ResponseCode], code: int) -> str:
    try:
        return f"{codes(code).name} ({code})"
    except ValueError:
        return str(code)


def answered(error: NameServerError) -> bool:
    """Whether a node made up its mind, instead of failing."""
    return isinstance(error, Refused) and not isinstance(error, NotReady | LeavingNode)


def what(error: NameServerError) -> str:
    """The error without the node, for where the node stands beside it."""
    return one_line(error.what if isinstance(error, NodeError) else error)


def is_foreign(result: object) -> bool:
    """Whether this is how a NameServer answers that knows nothing of Routebook's requests."""
    return isinstance(result, Refused) and result.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
