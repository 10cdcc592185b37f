"""Requests: what a NameServer can be asked, as typed calls.

Each call takes ``timeout_s``, the deadline of the whole call. Errors are those of
``routebook.client.errors``; they name the node and what it said.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import msgspec

from routebook.client.errors import (
    BadAnswer,
    LeavingNode,
    NotReady,
    Refused,
    TopicNotFound,
)
from routebook.client.node import Answer
from routebook.client.relayed import relayed
from routebook.client.routes import (
    ClusterView,
    SystemTopics,
    TopicRoute,
    cluster_view_of,
    route_of,
)
from routebook.wire import answers
from routebook.wire.answers import BrokerGroup, TopicQueues
from routebook.wire.codes import RequestCode, ResponseCode, Version
from routebook.wire.command import Command
from routebook.wire.errors import BadBody

NOT_READY = "name server not ready"


def command(
    code: RequestCode, fields: dict[str, str | None] | None = None, body: bytes = b""
) -> Command:
    """A request of ours; fields that are None are left out."""
    return Command(code=code, version=Version.V5_5_0, ext_fields=fields or {}, body=body)


def route_question(topic: str) -> Command:
    return command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})


def checked(request: Command, answer: Answer) -> Answer:
    """``answer`` if it is a success; raises the kind of Refused it is."""
    code = answer.command.code
    if code == ResponseCode.SUCCESS:
        return answer
    remark = answer.command.remark
    kind = Refused
    if code == ResponseCode.GO_AWAY:
        kind = LeavingNode
    elif request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        if code == ResponseCode.TOPIC_NOT_EXIST:
            kind = TopicNotFound
        elif code == ResponseCode.SYSTEM_ERROR and (remark or "").startswith(NOT_READY):
            kind = NotReady
    raise kind(answer.node, request.code, code, remark)


class Requests(ABC):
    """The calls; whoever inherits them says how a request reaches a node."""

    @abstractmethod
    async def ask(self, request: Command, *, timeout_s: float | None = None) -> Answer:
        """The successful answer to any request; raises NameServerError."""

    # -- routes, brokers, topics

    async def route(self, topic: str, *, timeout_s: float | None = None) -> TopicRoute:
        """Which brokers hold a topic; raises TopicNotFound."""
        answer = await self.ask(route_question(topic), timeout_s=timeout_s)
        try:
            body = answers.decode_route(answer.command.body)
        except BadBody as error:
            raise BadAnswer(answer.node, str(error)) from error
        return route_of(topic, body, answer.node, relayed(answer.command))

    async def find_route(self, topic: str, *, timeout_s: float | None = None) -> TopicRoute | None:
        """The route, or None when the node knows none."""
        try:
            return await self.route(topic, timeout_s=timeout_s)
        except TopicNotFound:
            return None

    async def cluster_view(self, *, timeout_s: float | None = None) -> ClusterView:
        """All broker groups the node knows, and their clusters."""
        answer = await self.ask(command(RequestCode.GET_BROKER_CLUSTER_INFO), timeout_s=timeout_s)
        try:
            return cluster_view_of(answers.decode_cluster(answer.command.body))
        except BadBody as error:
            raise BadAnswer(answer.node, str(error)) from error

    async def broker_group(
        self, cluster: str, broker: str, *, timeout_s: float | None = None
    ) -> BrokerGroup | None:
        """The members of a broker name, or None when the node knows none."""
        fields: dict[str, str | None] = {"clusterName": cluster, "brokerName": broker}
        answer = await self.ask(
            command(RequestCode.GET_BROKER_MEMBER_GROUP, fields), timeout_s=timeout_s
        )
        try:
            group = answers.decode_group(answer.command.body)
        except BadBody as error:
            raise BadAnswer(answer.node, str(error)) from error
        return group if group is not None and group.addrs else None

    async def topics(self, *, timeout_s: float | None = None) -> tuple[str, ...]:
        """All topics the node knows, sorted, as all lists of topics are."""
        return await self._topics(
            command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), timeout_s
        )

    async def topics_of_cluster(
        self, cluster: str, *, timeout_s: float | None = None
    ) -> tuple[str, ...]:
        """The topics of the brokers of a cluster; none for a cluster nobody is in."""
        question = command(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": cluster})
        return await self._topics(question, timeout_s)

    async def system_topics(self, *, timeout_s: float | None = None) -> SystemTopics:
        """The names of clusters and brokers, which are topics too."""
        answer = await self.ask(
            command(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS), timeout_s=timeout_s
        )
        listed = _topic_list(answer)
        return SystemTopics(tuple(sorted(listed.topic_list or ())), listed.broker_addr)

    async def unit_topics(self, *, timeout_s: float | None = None) -> tuple[str, ...]:
        """Topics whose system flag says that they belong to a unit."""
        return await self._topics(command(RequestCode.GET_UNIT_TOPIC_LIST), timeout_s)

    async def unit_sub_topics(self, *, timeout_s: float | None = None) -> tuple[str, ...]:
        """Topics whose system flag says that units subscribe to them."""
        return await self._topics(command(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST), timeout_s)

    async def unit_sub_ununit_topics(self, *, timeout_s: float | None = None) -> tuple[str, ...]:
        """Topics that units subscribe to and that belong to none."""
        question = command(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST)
        return await self._topics(question, timeout_s)

    async def register_topic(
        self, topic: str, queues: Iterable[TopicQueues], *, timeout_s: float | None = None
    ) -> None:
        """Add a topic to brokers.

        A node that does not know one of them adds nothing, yet answers success, as Java's do.
        """
        body = b'{"brokerDatas":[],"filterServerTable":{},"queueDatas":%b}' % msgspec.json.encode(
            list(queues)
        )
        question = command(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": topic}, body)
        await self.ask(question, timeout_s=timeout_s)

    async def delete_topic(
        self, topic: str, *, cluster: str | None = None, timeout_s: float | None = None
    ) -> None:
        """Forget the topic, everywhere or in one cluster only."""
        fields = {"topic": topic, "clusterName": cluster}
        await self.ask(command(RequestCode.DELETE_TOPIC_IN_NAMESRV, fields), timeout_s=timeout_s)

    async def wipe_write_permission(self, broker: str, *, timeout_s: float | None = None) -> int:
        """Take write permission from all topics of a broker name; how many there are."""
        question = command(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": broker})
        return await self._count(question, "wipeTopicCount", timeout_s)

    async def add_write_permission(self, broker: str, *, timeout_s: float | None = None) -> int:
        """Give write permission to all topics of a broker name; how many there are.

        To all of them, those that never had it among them; ``restore_write_permission`` does not.
        """
        question = command(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": broker})
        return await self._count(question, "addTopicCount", timeout_s)

    # -- key-value pairs

    async def put_kv(
        self, namespace: str, key: str, value: str, *, timeout_s: float | None = None
    ) -> None:
        """Set the value of a key; a Routebook node has it on disk when this returns."""
        fields: dict[str, str | None] = {"namespace": namespace, "key": key, "value": value}
        await self.ask(command(RequestCode.PUT_KV_CONFIG, fields), timeout_s=timeout_s)

    async def find_kv(
        self, namespace: str, key: str, *, timeout_s: float | None = None
    ) -> str | None:
        """The value of a key, or None when there is none."""
        fields: dict[str, str | None] = {"namespace": namespace, "key": key}
        try:
            answer = await self.ask(command(RequestCode.GET_KV_CONFIG, fields), timeout_s=timeout_s)
        except Refused as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return answer.command.ext_fields.get("value") or ""

    async def delete_kv(self, namespace: str, key: str, *, timeout_s: float | None = None) -> None:
        """Forget a key; one that is not there is no error."""
        fields: dict[str, str | None] = {"namespace": namespace, "key": key}
        await self.ask(command(RequestCode.DELETE_KV_CONFIG, fields), timeout_s=timeout_s)

    async def kv_table(self, namespace: str, *, timeout_s: float | None = None) -> dict[str, str]:
        """All pairs of a namespace; empty when it does not exist."""
        question = command(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": namespace})
        try:
            answer = await self.ask(question, timeout_s=timeout_s)
        except Refused as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return {}
            raise
        try:
            return answers.decode_kv(answer.command.body)
        except BadBody as error:
            raise BadAnswer(answer.node, str(error)) from error

    # -- the node's own settings

    async def config(self, *, timeout_s: float | None = None) -> dict[str, str]:
        """The settings of the node, as text."""
        import javaproperties  # only here, so that importing the client stays quick

        answer = await self.ask(command(RequestCode.GET_NAMESRV_CONFIG), timeout_s=timeout_s)
        try:
            return dict(javaproperties.loads(answer.command.body.decode()))
        except ValueError as error:
            raise BadAnswer(answer.node, f"the body is not properties: {error}") from error

    async def update_config(
        self, values: dict[str, str], *, timeout_s: float | None = None
    ) -> None:
        """Change settings while the node runs; raises Refused unless it allows that."""
        import javaproperties

        body = javaproperties.dumps(values, timestamp=False).encode()
        await self.ask(command(RequestCode.UPDATE_NAMESRV_CONFIG, body=body), timeout_s=timeout_s)

    # -- what only Routebook's nodes answer

    async def health(self, *, timeout_s: float | None = None) -> dict[str, Any]:
        """How the node is: what it knows, its journal, brokers held by its guard."""
        answer = await self.ask(command(RequestCode.ROUTEBOOK_HEALTH), timeout_s=timeout_s)
        try:
            return msgspec.json.decode(answer.command.body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadAnswer(answer.node, f"the body is not a health report: {error}") from error

    async def recent(
        self,
        *,
        topic: str | None = None,
        broker: str | None = None,
        timeout_s: float | None = None,
    ) -> list[bytes]:
        """Lines of the latest records of the node's journal, about a topic or a broker if given."""
        fields = {"topic": topic, "broker": broker}
        answer = await self.ask(command(RequestCode.ROUTEBOOK_RECENT, fields), timeout_s=timeout_s)
        return answer.command.body.splitlines()

    async def release_guard(self, *, timeout_s: float | None = None) -> int:
        """Let go the brokers the node's guard holds; how many there were."""
        question = command(RequestCode.ROUTEBOOK_RELEASE_GUARD)
        return await self._count(question, "dropped", timeout_s)

    async def restore_write_permission(
        self, broker: str, *, look_only: bool = False, timeout_s: float | None = None
    ) -> answers.WriteState:
        """Give write permission back to the topics of a broker name that it was taken from.

        ``look_only`` changes nothing. Either way, how it stands afterwards.
        """
        fields: dict[str, str | None] = {"brokerName": broker}
        if look_only:
            fields["lookOnly"] = "true"
        question = command(RequestCode.ROUTEBOOK_RESTORE_WRITE_PERM, fields)
        answer = await self.ask(question, timeout_s=timeout_s)
        try:
            return answers.decode_write_state(answer.command.body)
        except BadBody as error:
            raise BadAnswer(answer.node, str(error)) from error

    # -- what several calls share

    async def _topics(self, question: Command, timeout_s: float | None) -> tuple[str, ...]:
        answer = await self.ask(question, timeout_s=timeout_s)
        return tuple(sorted(_topic_list(answer).topic_list or ()))

    async def _count(self, question: Command, field: str, timeout_s: float | None) -> int:
        answer = await self.ask(question, timeout_s=timeout_s)
        text = answer.command.ext_fields.get(field)
        try:
            return int(text or "")
        except ValueError:
            raise BadAnswer(answer.node, f"{field} is {text!r}, not a number") from None


def _topic_list(answer: Answer) -> answers.TopicListBody:
    try:
        return answers.decode_topic_list(answer.command.body)
    except BadBody as error:
        raise BadAnswer(answer.node, str(error)) from error
