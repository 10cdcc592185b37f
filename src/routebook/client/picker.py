"""QueuePicker: whose turn it is among the queues of a topic."""

import random
from collections.abc import Callable

from routebook.client.faults import FaultTable
from routebook.client.queues import MessageQueue, endpoints, publish_queues
from routebook.client.routes import TopicRoute


class QueuePicker:
    """Takes the publish queues of one route in turn, from a random one on.

    Whether two queues are on the same broker is a question of who holds them, so logical queues
    count for their holders. With a fault table, brokers that are slow or fail are passed over.
    Raises BadRoute.
    """

    def __init__(
        self, route: TopicRoute, rng: random.Random, *, faults: FaultTable | None = None
    ) -> None:
        self.queues = publish_queues(route)
        self._rng = rng
        self._faults = faults
        holders = endpoints(route) if any(queue.logical for queue in self.queues) else {}
        self._brokers = [holders.get(queue, queue.broker) for queue in self.queues]
        self._turn = self._random_turn()

    def pick(self, *, avoiding: str | None = None, now_ms: int) -> MessageQueue | None:
        """The next queue, if possible on another broker than ``avoiding``, which just failed.

        None when there is no queue at all.
        """
        if not self.queues:
            return None
        faults = self._faults
        if faults is None:
            return self._find(lambda broker: broker != avoiding) or self._next()[0]
        if avoiding is not None:
            # Those who failed together on one broker must not all turn to the same one next.
            self._turn = self._random_turn()
        return (
            self._find(lambda broker: broker != avoiding and faults.available(broker, now_ms))
            or self._find(lambda broker: broker != avoiding and faults.reachable(broker))
            or self._next()[0]
        )

    def _find(self, suits: Callable[[str], bool]) -> MessageQueue | None:
        """The next queue whose broker suits, looking at each queue once."""
        for _ in self.queues:
            queue, broker = self._next()
            if suits(broker):
                return queue
        return None

    def _next(self) -> tuple[MessageQueue, str]:
        turn = self._turn % len(self.queues)
        self._turn = turn + 1
        return self.queues[turn], self._brokers[turn]

    def _random_turn(self) -> int:
        return self._rng.randrange(len(self.queues)) if self.queues else 0
