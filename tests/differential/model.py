"""A small NameServer, with the defects of the reference, each of them optional.

``Model(JAVA)`` answers as the Java NameServer does, ``Model(OURS)`` as ours. What stands between
the two are the rules: every ``if Rule.X in self._rules`` below is one allowed difference. The
order of the steps of a registration is that of the reference (RouteInfoManager.registerBroker).
"""

from dataclasses import replace

from differential.canonical import (
    EXCEPTION,
    NOW,
    REASON,
    SENTENCE,
    Answer,
    bean,
    header_text,
    mapping,
    quoted_plain,
)
from differential.content import Content, content, skips_bare_keys, skips_trailing_commas
from differential.java_hash import BROKER_TABLE, LIVE_TABLE, walk
from differential.rendering import Writer
from differential.rules import Rule
from differential.steps import (
    Asked,
    Close,
    Crc,
    DeleteKv,
    DeleteTopic,
    Form,
    GetClusterInfo,
    GetKv,
    GetMembers,
    GetRoute,
    GetTopics,
    GetTopicsOfCluster,
    Heartbeat,
    Listing,
    ListKv,
    Mapping,
    Profile,
    PutKv,
    QueryVersion,
    Queues,
    Register,
    RegisterTopic,
    SetWritable,
    Spelling,
    Stamp,
    Unknown,
    Unregister,
    Via,
)
from differential.tables import WRITE, Group, Key, Live, LiveKey, Tables
from differential.views import ORDER_NAMESPACE, Views

_NOT_FOUND = (
    "No topic route info in name server for the topic: {}\n"
    "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
)


class Model:
    """``kv`` is what the key-value store held before the sequence began."""

    def __init__(
        self, rules: frozenset[Rule], profile: Profile, kv: dict[str, dict[str, str | None]]
    ) -> None:
        self._rules = rules
        self._profile = profile
        self._writer = Writer(Rule.STRING_ESCAPES in rules)
        self._reopened: dict[int, int] = {}
        self.tables = Tables(
            kv={namespace: dict(table) for namespace, table in kv.items()},
            names_are_global=Rule.NAME_IN_TWO_CLUSTERS not in rules,
        )
        self._views = Views(self.tables, rules, profile, self._writer)

    def answer(self, step: Asked) -> Answer | None:
        """What the server answers, None for a oneway request; the tables change with it."""
        answer = self._answer(step)
        return None if step.via.oneway else answer

    def close(self, step: Close) -> None:
        """The connection is gone, and whoever lived by it."""
        tables, link = self.tables, self._link(step.connection)
        self._reopened[step.connection] = self._reopened.get(step.connection, 0) + 1
        if Rule.HEARD_ON_ANOTHER_CONNECTION in self._rules:
            for live in tables.live.values():
                if live.other_link == link:
                    live.other_link = None
        lost = {f"{key[0]}_{key[1]}": key for key, live in tables.live.items() if live.link == link}
        keys = list(lost.values())
        if Rule.ALL_OF_A_CONNECTION not in self._rules:
            keys = [lost[text] for text in walk(lost, LIVE_TABLE)[:1]]
        for key in keys:
            live = tables.live[key]
            if Rule.HEARD_ON_ANOTHER_CONNECTION in self._rules and live.other_link is not None:
                live.link, live.other_link = live.other_link, None
                tables.registered_on.setdefault(live.link, {})[key] = live.generation
            else:
                self._lose(key)
        tables.registered_on.pop(link, None)

    def _answer(self, step: Asked) -> Answer:
        match step:
            case Register():
                return self._register(step)
            case Unregister():
                return self._unregister(step)
            case Heartbeat():
                if step.cluster is None or step.addr is None:
                    return self._refuse(step)
                self._hear(step.cluster, step.addr, step.via)
                return self._reply(step)
            case QueryVersion():
                return self._query_version(step)
            case PutKv() | GetKv() | DeleteKv() | ListKv():
                return self._key_value(step)
            case SetWritable():
                return self._set_writable(step)
            case DeleteTopic():
                return self._delete_topic(step)
            case RegisterTopic():
                return self._register_topic(step)
            case GetRoute():
                return self._get_route(step)
            case GetClusterInfo():
                return self._reply(step, body=self.cluster_info())
            case GetTopics() | GetTopicsOfCluster():
                return self._get_topics(step)
            case GetMembers():
                return self._get_members(step)
            case Unknown():
                return self._reply(step, 3, f" request type {step.code} not supported")

    # -- answers

    def _reply(
        self,
        step: Asked,
        code: int = 0,
        remark: str | None = None,
        *,
        ext: dict[str, str] | None = None,
        body: str | None = None,
    ) -> Answer:
        binary = step.via.binary and Rule.BINARY_ECHO in self._rules
        text = quoted_plain if binary else self._writer.text
        entries = None if ext is None else mapping({text(k): text(v) for k, v in ext.items()})
        if remark is not None and remark not in (SENTENCE, EXCEPTION):
            remark = text(remark)
        return Answer(binary, header_text(code=code, ext=entries, binary=binary), remark, body)

    def _refuse(self, step: Asked) -> Answer:
        told = Rule.EXCEPTION_TEXT in self._rules
        return self._reply(step, 1, SENTENCE if told else EXCEPTION)

    def _lacks(self, *fields: object) -> bool:
        """Whether a field is missing, and missing fields are refused."""
        return Rule.REQUIRED_FIELDS in self._rules and None in fields

    def _negative(self, step: Register | Unregister) -> bool:
        return Rule.NEGATIVE_BROKER_ID in self._rules and (step.broker_id or 0) < 0

    def _link(self, connection: int) -> int:
        """Names one connection; a connection opened again is another one."""
        return connection + 100 * self._reopened.get(connection, 0)

    # -- registration

    def _register(self, step: Register) -> Answer:
        unreadable = isinstance(step.heartbeat_ms, str) and Rule.REQUIRED_FIELDS in self._rules
        if unreadable or self._lacks(step.cluster, step.broker_id) or self._negative(step):
            return self._refuse(step)
        if step.crc is Crc.WRONG:
            return self._reply(step, 1, "crc32 not match", ext={})
        body = content(step) if self._readable(step) else None
        if body is None or step.broker_id is None:
            return self._refuse(step)
        if body.topics is None and Rule.REFUSED_WITHOUT_TRACE in self._rules:
            return self._refuse(step)
        if step.cluster is None:
            return self._registered(step, None)
        tables = self.tables
        key = self.tables.key(step.cluster, step.name)
        if Rule.REFUSED_WITHOUT_TRACE in self._rules:
            addrs = tables.groups[key].addrs if key in tables.groups else {}
            refusal = self._refusal(step, body, step.cluster, step.broker_id, addrs)
            if refusal is not None:
                return refusal
        tables.clusters.setdefault(step.cluster, {})[step.name] = None
        first = key not in tables.groups
        group = tables.groups.setdefault(key, Group(step.cluster, step.name))
        group.acting_master = bool(step.acting_master)
        group.zone = step.zone
        _drop_other_ids(group.addrs, step.addr, step.broker_id)
        if Rule.REFUSED_WITHOUT_TRACE not in self._rules:
            refusal = self._refusal(step, body, step.cluster, step.broker_id, group.addrs)
            if refusal is not None:
                return refusal
        self._join(step, body, key, group, first=first)
        return self._registered(step, group)

    def _readable(self, step: Register) -> bool:
        fastjson_1 = Rule.JSON_DIALECT in self._rules
        match step.form:
            case Form.UNLABELLED:
                return Rule.MISLABELLED_COMPRESSION in self._rules
            case Form.JSON | Form.OLD | Form.NULL_TABLE:
                if step.spelling in (Spelling.BARE_NAMES, Spelling.DOUBLE_COMMAS):
                    return fastjson_1
                if skips_bare_keys(step) or skips_trailing_commas(step):
                    return fastjson_1
                return step.spelling is not Spelling.COMMENT or not fastjson_1
            case Form.COMPRESSED | Form.CUT | Form.NOTHING:
                return True

    def _refusal(
        self, step: Register, body: Content, cluster: str, broker_id: int, addrs: dict[int, str]
    ) -> Answer | None:
        addrs = dict(addrs)
        _drop_other_ids(addrs, step.addr, broker_id)
        tables = self.tables
        holder = addrs.get(broker_id)
        old = tables.live.get((cluster, holder)) if holder not in (None, step.addr) else None
        if old is not None:
            state_version = self._stamp(body)[1]
            if old.state_version is None or state_version is None:
                return self._registered(step, None)  # raises there
            if old.state_version > state_version:
                if Rule.CONFLICT_VISIBLE not in self._rules:
                    tables.live.pop((cluster, step.addr), None)
                return self._registered(step, None)
        if holder is None:
            if body.topics is None:
                return self._registered(step, None)  # raises there
            if len(body.topics) == 1:
                return self._reply(step, 1, "register broker failed", ext={})
        return None

    def _stamp(self, body: Content) -> tuple[Stamp | None, int | None]:
        """The DataVersion to remember and its state version; None where asking for it raises."""
        stamp = body.stamp
        if stamp is None:
            return None, 0 if Rule.CONFLICT_VISIBLE in self._rules else None
        if stamp.timestamp is None and Rule.DATA_VERSION_WITHOUT_TIMESTAMP in self._rules:
            return None, 0
        return stamp, stamp.state_version

    def _join(self, step: Register, body: Content, key: Key, group: Group, *, first: bool) -> None:
        tables, cluster, broker_id = self.tables, step.cluster, step.broker_id
        assert cluster is not None
        assert broker_id is not None
        live_key = (cluster, step.addr)
        live = tables.live.get(live_key)
        if Rule.NO_GHOSTS in self._rules and live is not None and live.name != step.name:
            self._remove(live_key, live.name, live.broker_id)
            live = None
        old_addr = group.addrs.get(broker_id)
        group.addrs[broker_id] = step.addr
        first = first or old_addr is None
        if Rule.NO_GHOSTS in self._rules and old_addr not in (None, step.addr):
            self._forget((cluster, str(old_addr)))
        stamp, state_version = self._stamp(body)
        changed = live is None or not _same(live.stamp, stamp)
        prime = step.acting_master is not None and broker_id == min(group.addrs)
        if body.topics is not None and (broker_id == 0 or prime):
            read_only = broker_id != 0 and group.acting_master
            self._publish(
                body.topics,
                body.mappings,
                key,
                group,
                rewrite=first or changed,
                read_only=read_only,
            )
        link = self._link(step.via.connection)
        joined = live is None or (live.name, live.link, live.broker_id) != (
            step.name,
            link,
            broker_id,
        )
        if joined:
            tables.generation += 1
            tables.registered_on.setdefault(link, {})[live_key] = tables.generation
        generation = live.generation if live and not joined else tables.generation
        other_link = live.other_link if live and not joined else None
        tables.live[live_key] = Live(
            step.name, broker_id, link, generation, step.ha, stamp, state_version, other_link
        )
        if body.filters:
            tables.filters[live_key] = body.filters
        elif body.filters is not None:
            tables.filters.pop(live_key, None)

    def _publish(
        self,
        topics: dict[str, Queues],
        mappings: tuple[Mapping, ...],
        key: Key,
        group: Group,
        *,
        rewrite: bool,
        read_only: bool,
    ) -> None:
        tables = self.tables
        with_mappings = Rule.MAPPINGS_REMOVED in self._rules
        if self._profile.delete_topic_with_broker_registration and not mappings:
            for topic in tables.topics_of(key):
                if topic not in topics:
                    tables.drop_topic(key, topic, with_mappings=with_mappings)
        for topic, queues in topics.items():
            held = key in tables.topics.get(topic, {})
            if Rule.CONTENT_TRUE in self._rules:
                held = held and group.registered.get(topic) == queues
            if rewrite or not held:
                group.registered[topic] = queues
                perm = queues.perm & ~WRITE if read_only else queues.perm
                tables.topics.setdefault(topic, {})[key] = replace(queues, perm=perm)
        if rewrite or Rule.CONTENT_TRUE in self._rules:
            for info in mappings:
                tables.mappings.setdefault(info.topic, {})[info.broker] = (info, key)

    def _registered(self, step: Register, group: Group | None) -> Answer:
        ext = {}
        if group is not None and step.cluster is not None and step.broker_id != 0:
            master = self.tables.live.get((step.cluster, group.addrs.get(0, "")))
            if master is not None:
                ext["masterAddr"] = group.addrs[0]
                if master.ha is not None:
                    ext["haServerAddr"] = master.ha
        body = None
        if self._profile.return_order_topic_config_to_broker:
            body = self._kv_table(ORDER_NAMESPACE)
        return self._reply(step, ext=ext, body=body)

    # -- liveness

    def _hear(self, cluster: str, addr: str, via: Via) -> Live | None:
        live = self.tables.live.get((cluster, addr))
        link = self._link(via.connection)
        if live is not None and link not in (live.link, live.other_link):
            live.other_link = link
        return live

    def _query_version(self, step: QueryVersion) -> Answer:
        if step.cluster is None or step.addr is None:
            return self._refuse(step)
        live = self._hear(step.cluster, step.addr, step.via)
        if live is None or live.stamp is None:
            return self._reply(step, ext={"changed": "true"})
        changed = "false" if _same(live.stamp, step.stamp) else "true"
        body = self._writer.data_version(live.stamp, NOW)
        return self._reply(step, ext={"changed": changed}, body=body)

    def _unregister(self, step: Unregister) -> Answer:
        if self._lacks(step.cluster, step.name, step.broker_id, step.addr) or self._negative(step):
            return self._refuse(step)
        if step.cluster is None or step.addr is None:
            return self._reply(step)  # raises there
        key = (step.cluster, step.addr)
        live = self.tables.live.get(key)
        known = live is not None and live.name == step.name
        if Rule.UNREGISTER_IDENTITY in self._rules and not known:
            return self._reply(step)
        on_link = self.tables.registered_on.get(self._link(step.via.connection), {})
        generation = on_link.get(key)
        late = live is not None and generation not in (None, live.generation)
        if Rule.UNREGISTER_AT_ONCE not in self._rules or not late:
            self._remove(key, step.name, step.broker_id)
        return self._reply(step)

    def _lose(self, key: LiveKey) -> None:
        """Remove a broker whose connection is gone, if a group of its cluster knows it."""
        cluster, addr = key
        found = {
            group.name: broker_id
            for group in self.tables.groups.values()
            for broker_id, member in group.addrs.items()
            if group.cluster == cluster and member == addr
        }
        if found:
            name = walk(found, BROKER_TABLE)[0]
            self._remove(key, name, found[name])

    def _forget(self, key: LiveKey) -> None:
        live = self.tables.live.pop(key, None)
        self.tables.filters.pop(key, None)
        if live is not None:
            self.tables.registered_on.get(live.link, {}).pop(key, None)

    def _remove(self, live_key: LiveKey, name: str | None, broker_id: int | None) -> None:
        tables = self.tables
        cluster, addr = live_key
        self._forget(live_key)
        if name is None:
            return  # raises there
        key = self.tables.key(cluster, name)
        group = tables.groups.get(key)
        if group is None:
            return
        if group.addrs and broker_id is None:
            return  # raises there
        group.addrs = {i: member for i, member in group.addrs.items() if member != addr}
        if group.addrs:
            if group.acting_master and min(group.addrs) > 0:
                for topic in tables.topics_of(key):
                    queues = tables.topics[topic][key]
                    tables.topics[topic][key] = replace(queues, perm=queues.perm & ~WRITE)
            return
        if Rule.MAPPINGS_REMOVED in self._rules:
            for topic in list(tables.mappings):
                tables.drop_mappings(key, topic)
        for topic in tables.topics_of(key):
            tables.drop_topic(key, topic, with_mappings=False)
        del tables.groups[key]
        names = tables.clusters.get(cluster, {})
        names.pop(name, None)
        if not names:
            tables.clusters.pop(cluster, None)

    # -- administration

    def _key_value(self, step: PutKv | GetKv | DeleteKv | ListKv) -> Answer:
        kv = self.tables.kv
        namespace = _sent(step.namespace, step.via)
        if isinstance(step, ListKv):
            body = None if namespace is None else self._kv_table(namespace)
            if body is None:
                return self._reply(step, 22, f"No config item, Namespace: {_java(namespace)}")
            return self._reply(step, body=body)
        key = _sent(step.key, step.via)
        if isinstance(step, PutKv):
            value = _sent(step.value, step.via)
            if namespace is None or key is None:
                return self._reply(step, 1, "namespace or key is null")
            if self._lacks(value):
                return self._refuse(step)
            kv.setdefault(namespace, {})[key] = value
            return self._reply(step)
        if self._lacks(namespace, key):
            return self._refuse(step)
        table = kv.get(namespace, {}) if namespace is not None else {}
        if isinstance(step, DeleteKv):
            if key is not None:
                table.pop(key, None)
            return self._reply(step)
        found = None if key is None else table.get(key)
        if found is None:
            remark = f"No config item, Namespace: {_java(namespace)} Key: {_java(key)}"
            return self._reply(step, 22, remark, ext={})
        return self._reply(step, ext={"value": found})

    def _kv_table(self, namespace: str) -> str | None:
        table = self.tables.kv.get(namespace)
        if table is None:
            return None
        entries = {key: value for key, value in table.items() if value is not None}
        return bean({"table": self._writer.strings(entries)})

    def _set_writable(self, step: SetWritable) -> Answer:
        if self._lacks(step.name):
            return self._refuse(step)
        touched = set()
        for topic, holders in self.tables.topics.items():
            for key, queues in holders.items():
                if key[1] == step.name:
                    touched.add(topic)
                    perm = queues.perm & ~WRITE
                    if step.writable:
                        adds = Rule.WRITE_BIT_ONLY in self._rules
                        perm = queues.perm | WRITE if adds else 6
                    holders[key] = replace(queues, perm=perm)
        counted = "addTopicCount" if step.writable else "wipeTopicCount"
        return self._reply(step, ext={counted: str(len(touched))})

    def _delete_topic(self, step: DeleteTopic) -> Answer:
        if self._lacks(step.topic):
            return self._refuse(step)
        tables = self.tables
        for key in list(tables.topics.get(step.topic or "", {})):
            named = step.cluster is None or any(
                self.tables.key(step.cluster, name) == key
                for name in tables.clusters.get(step.cluster, {})
            )
            if named:
                with_mappings = Rule.MAPPINGS_REMOVED in self._rules
                tables.drop_topic(key, step.topic or "", with_mappings=with_mappings)
        return self._reply(step)

    def _register_topic(self, step: RegisterTopic) -> Answer:
        if self._lacks(step.topic):
            return self._refuse(step)
        tables = self.tables
        whole = Rule.TOPIC_ALL_OR_NOTHING in self._rules or step.topic not in tables.topics
        queues = list(step.queues or ())
        known = [bool(tables.groups_named(name)) for name, _ in queues]
        if False in known:
            queues = [] if whole else queues[: known.index(False)]
        if step.topic is not None:
            for name, shape in queues:
                for key, group in tables.groups_named(name):
                    tables.topics.setdefault(step.topic, {})[key] = shape
                    group.registered.setdefault(step.topic, shape)
        return self._reply(step)

    # -- queries

    def _get_route(self, step: GetRoute) -> Answer:
        topic = _sent(step.topic, step.via)
        body = None if topic is None else self._views.route(step, topic)
        if body is None:
            remark = _NOT_FOUND.format(_java(topic))
            if Rule.NO_ROUTE_REASON in self._rules and topic is not None:
                remark += f"\nReason: {REASON}"
            return self._reply(step, 17, remark)
        return self._reply(step, body=body)

    def _get_topics(self, step: GetTopics | GetTopicsOfCluster) -> Answer:
        everything = isinstance(step, GetTopics) and step.listing is Listing.ALL
        system = isinstance(step, GetTopics) and step.listing is Listing.SYSTEM
        profile = self._profile
        enabled = profile.enable_all_topic_list if everything else profile.enable_topic_list
        if not enabled and not system:
            return self._reply(step, 1, "disable")
        if isinstance(step, GetTopics):
            return self._reply(step, body=self._views.topics(step.listing))
        if self._lacks(step.cluster):
            return self._refuse(step)
        return self._reply(step, body=self._views.topics_of_cluster(step.cluster or ""))

    def _get_members(self, step: GetMembers) -> Answer:
        if self._lacks(step.name):
            return self._refuse(step)
        clears = Rule.MEMBER_GROUP_REMARK in self._rules
        remark = None if clears else "not set any response code"
        return self._reply(step, 0, remark, body=self._views.members(step.cluster, step.name))

    def cluster_info(self) -> str:
        return self._views.cluster_info()


def _drop_other_ids(addrs: dict[int, str], addr: str, broker_id: int) -> None:
    """The same process under a new id: a change of role."""
    for other in [i for i, member in addrs.items() if member == addr and i != broker_id]:
        del addrs[other]


def _same(one: Stamp | None, other: Stamp | None) -> bool:
    """Equal DataVersions; one that got the time of its arrival equals no other."""
    return one is not None and one == other and one.timestamp is not None


def _sent(value: str | None, via: Via) -> str | None:
    """A binary header has no empty strings."""
    return None if via.binary and value == "" else value


def _java(value: str | None) -> str:
    return "null" if value is None else value
