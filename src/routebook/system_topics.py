"""Topics nobody made on purpose: those of RocketMQ itself, of its consumers and of its names."""

from collections.abc import Collection

# TopicValidator of the reference, and what its brokers and proxies register besides.
SYSTEM_TOPICS = (
    "BenchmarkTest",
    "DefaultHeartBeatSyncerTopic",
    "OFFSET_MOVED_EVENT",
    "SCHEDULE_TOPIC_XXXX",
    "SELF_TEST_TOPIC",
    "TBW102",
    "TRANS_CHECK_MAX_TIME_TOPIC",
)
SYSTEM_PREFIXES = ("%RETRY%", "%DLQ%")
RMQ_PREFIX = "rmq_sys_"  # in any case
REPLY_SUFFIX = "_REPLY_TOPIC"


def is_system_topic(topic: str, names: Collection[str]) -> bool:
    """``names`` are those of all clusters and brokers, which are topics too."""
    return (
        topic in SYSTEM_TOPICS
        or topic in names
        or topic.startswith(SYSTEM_PREFIXES)
        or topic.lower().startswith(RMQ_PREFIX)
        or (topic.endswith(REPLY_SUFFIX) and topic.removesuffix(REPLY_SUFFIX) in names)
    )
