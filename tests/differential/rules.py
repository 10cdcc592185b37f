"""The allowed differences between the Java NameServer and ours, each under a name.

A rule is a switch of the model (``model.py``): switched off, the model does what the reference
does, defect included; switched on, it does what we do. So the situation in which a rule
applies is not a pattern over answers but the one place in the model that asks for it, and two
answers may differ only if the model with all rules off gives the one and the model with all
rules on gives the other, to the byte.

``docs/compatibility.md`` has a heading for every name here.
"""

from enum import Enum


class Rule(Enum):
    """The name of a difference and what we do where the reference does something else."""

    # How answers look
    BINARY_ECHO = (
        "binary-echo",
        "A request with a binary header is answered with one; Java 5.x answers in JSON.",
    )
    STRING_ESCAPES = (
        "string-escapes",
        "Strings are escaped as RocketMQ up to 5.3 does (fastjson 1); 5.5.0 (fastjson 2) leaves"
        " everything but quotes, backslashes and control characters as it is.",
    )
    EXCEPTION_TEXT = (
        "exception-text",
        "A request that cannot be carried out is answered with code 1 and a sentence saying why;"
        " Java sends an exception with its stack frame.",
    )
    MEMBER_GROUP_REMARK = (
        "member-group-remark",
        "The answer to GET_BROKER_MEMBER_GROUP has no remark; Java leaves"
        ' "not set any response code" on a success.',
    )
    NO_ROUTE_REASON = (
        "no-route-reason",
        "The remark of an answer without a route goes on after Java's two lines and says why.",
    )
    ZONE_FORM = (
        "zone-form",
        "A route filtered by zone has the JSON form the caller understands, and a group whose"
        " slave acts as master is shown like any group without a master; Java falls back to bare"
        " integer keys and hides the group.",
    )

    # What is accepted
    REQUIRED_FIELDS = (
        "required-fields",
        "A request without a field it cannot do without, or with a number that is none, is refused"
        " with code 1 and changes nothing; Java answers success, or raises half-way.",
    )
    NEGATIVE_BROKER_ID = (
        "negative-broker-id",
        "A broker id below 0 is refused; Java takes it as an id lower than the master's.",
    )
    MISLABELLED_COMPRESSION = (
        "mislabelled-compression",
        "A compressed registration labelled as uncompressed, which 5.x brokers send, is read; Java"
        " refuses it.",
    )
    JSON_DIALECT = (
        "json-dialect",
        "Bodies are read in the dialect of fastjson 1 without comments: bare names and doubled"
        " commas are accepted; 5.5.0 (fastjson 2) refuses those, and a comma at the end of a member"
        " it does not know, and accepts comments.",
    )
    DATA_VERSION_WITHOUT_TIMESTAMP = (
        "data-version-without-timestamp",
        "A DataVersion without a timestamp never equals another and is not shown; Java puts its"
        " own clock in.",
    )

    # Registration
    REFUSED_WITHOUT_TRACE = (
        "refused-without-trace",
        "A registration that is refused leaves no trace; in Java it creates the group and the"
        " cluster, overwrites zone and acting master, and drops the broker's other id.",
    )
    CONFLICT_VISIBLE = (
        "conflict-visible",
        "A broker that loses an id conflict stays what it was, and a null DataVersion counts as"
        " epoch 0; Java forgets that the loser is alive, and raises at the null.",
    )
    NO_GHOSTS = (
        "no-ghosts",
        "An address whose id another one takes over, or that registers under another name, leaves"
        " its old place; Java keeps it there.",
    )
    NAME_IN_TWO_CLUSTERS = (
        "name-in-two-clusters",
        "The same broker name in two clusters is two groups; Java mixes them into one that belongs"
        " to the first cluster.",
    )
    CONTENT_TRUE = (
        "content-true",
        "Queues and static mappings other than those registered before are taken over although the"
        " DataVersion did not change; Java ignores them.",
    )
    MAPPINGS_REMOVED = (
        "mappings-removed",
        "Static topic mappings go with the topic or broker they belong to; Java keeps them.",
    )

    # Liveness
    UNREGISTER_IDENTITY = (
        "unregister-identity",
        "UNREGISTER_BROKER removes a broker whose cluster, name and address are those it registered"
        " with; Java applies each part to whatever table it fits.",
    )
    UNREGISTER_AT_ONCE = (
        "unregister-at-once",
        "UNREGISTER_BROKER over a connection that the broker has left for a newer one is void;"
        " Java removes the newer registration.",
    )
    ALL_OF_A_CONNECTION = (
        "all-of-a-connection",
        "A closed connection removes every broker registered over it; Java removes one.",
    )
    HEARD_ON_ANOTHER_CONNECTION = (
        "heard-on-another-connection",
        "A broker heard over another open connection outlives the one it registered on; Java"
        " removes it.",
    )

    # Administration
    WRITE_BIT_ONLY = (
        "write-bit-only",
        "ADD_WRITE_PERM_OF_BROKER adds the write bit; Java sets the permission to 6.",
    )
    TOPIC_ALL_OR_NOTHING = (
        "topic-all-or-nothing",
        "REGISTER_TOPIC_IN_NAMESRV is applied whole or not at all; for a known topic Java applies"
        " what stands before an unknown broker.",
    )

    # Queries
    UNIT_FLAGS = (
        "unit-flags",
        "Where brokers disagree on a topic's unit flags, the one that announced it first counts;"
        " in Java the order of a hash table decides.",
    )
    SHARED_FILTER_ADDRESS = (
        "shared-filter-address",
        "Filter servers of an address that two groups of a route share are shown; in Java a group"
        " without any may hide them.",
    )

    def __init__(self, title: str, says: str) -> None:
        self.title = title
        self.says = says


JAVA: frozenset[Rule] = frozenset()
OURS: frozenset[Rule] = frozenset(Rule)
