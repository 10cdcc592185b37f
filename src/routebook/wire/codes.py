"""Numbers of the protocol, in the words of the reference. Append only."""

from enum import IntEnum


class RequestCode(IntEnum):
    """What a NameServer is asked, and the one thing it asks of brokers (905)."""

    PUT_KV_CONFIG = 100
    GET_KV_CONFIG = 101
    DELETE_KV_CONFIG = 102
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_TOPIC_IN_NAMESRV = 216
    REGISTER_TOPIC_IN_NAMESRV = 217
    GET_KVLIST_BY_NAMESPACE = 219
    GET_TOPICS_BY_CLUSTER = 224
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    GET_UNIT_TOPIC_LIST = 311
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313
    UPDATE_NAMESRV_CONFIG = 318
    GET_NAMESRV_CONFIG = 319
    QUERY_DATA_VERSION = 322
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_BROKER_MEMBER_GROUP = 901
    BROKER_HEARTBEAT = 904
    NOTIFY_MIN_BROKER_ID_CHANGE = 905

    # Routebook's own, far from RocketMQ's numbers
    ROUTEBOOK_HEALTH = 19_001
    ROUTEBOOK_RECENT = 19_002
    ROUTEBOOK_RELEASE_GUARD = 19_003
    ROUTEBOOK_RESTORE_WRITE_PERM = 19_004
    ROUTEBOOK_WATCH = 19_005
    ROUTEBOOK_ROUTES = 19_006  # told to watchers, and asked by nobody
    ROUTEBOOK_UNWATCH = 19_007
    ROUTEBOOK_STATISTICS = 19_008
    ROUTEBOOK_SUMMARY = 19_009


class ResponseCode(IntEnum):
    """What a NameServer answers."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    QUERY_NOT_FOUND = 22
    GO_AWAY = 1500


class Version(IntEnum):
    """Ordinals of MQVersion.Version that switch something here."""

    V3_0_11 = 37  # from here on the registration body has a filter server list
    V4_9_4 = 401  # from here on route answers are standard JSON
    V5_0_0 = 413  # from here on a compressed registration has a mapping section
    V5_3_1 = 475  # later ones understand GO_AWAY
    V5_5_0 = 513  # what this node stamps into its answers
