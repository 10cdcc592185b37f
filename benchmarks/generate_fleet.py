"""The brokers of a plan as they really are, whatever a node believes of them."""

from benchmarks.generate_plan import ZONES, Scale

from routebook.state.model import QueueShape, Registration, VersionStamp

TIMEOUT_MS = 120_000
_SHAPES = (QueueShape(8, 8, 6, 0), QueueShape(4, 4, 6, 0))


class Broker:
    """``version`` changes with its topics; ``created`` are those it did not begin with."""

    __slots__ = ("addr", "cluster", "created", "ip", "name", "version", "zone")

    def __init__(self, number: int, *, began_ms: int) -> None:
        self.name = f"broker-{number:04d}"
        self.cluster = f"cluster-{1 + number % 2}"
        self.zone = f"zone-{number % ZONES + 1}"
        self.ip = f"10.{1 + number // 62_500}.{number // 250 % 250}.{number % 250 + 1}"
        self.addr = f"{self.ip}:10911"
        self.version = VersionStamp(0, began_ms, 0)
        self.created: list[str] = []

    def change(self, at_ms: int) -> None:
        self.version = VersionStamp(0, at_ms, self.version.counter + 1)

    def peer(self, link: int) -> str:
        return f"{self.ip}:{32_768 + link % 28_000}"


class PlannedFleet:
    """Every topic of the beginning is on some brokers that follow each other."""

    def __init__(self, scale: Scale, *, began_ms: int) -> None:
        self.brokers = [Broker(number, began_ms=began_ms) for number in range(scale.brokers)]
        self.topics = [f"topic-{number:06d}" for number in range(scale.distinct_topics)]
        self._shapes = [_SHAPES[number % 5 == 0] for number in range(len(self.topics))]
        self._scale = scale

    def registration(self, number: int, *, link: int) -> Registration:
        broker = self.brokers[number]
        return Registration(
            cluster=broker.cluster,
            name=broker.name,
            broker_id=0,
            addr=broker.addr,
            ha_addr=f"{broker.ip}:10912",
            heartbeat_timeout_ms=TIMEOUT_MS,
            acting_master=None,
            zone=broker.zone,
            state_version=0,
            stamp=broker.version,
            topics=self._topics_of(number),
            mappings=(),
            filter_servers=None,
            fingerprint=None,
            link=link,
            peer=broker.peer(link),
        )

    def _topics_of(self, number: int) -> dict[str, QueueShape]:
        first = number * self._scale.step
        places = [n % len(self.topics) for n in range(first, first + self._scale.topics)]
        topics = {self.topics[n]: self._shapes[n] for n in places}
        return topics | dict.fromkeys(self.brokers[number].created, _SHAPES[0])
