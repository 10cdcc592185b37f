"""Ask NameServers which brokers hold a topic.

NAMESRV_ADDR="10.0.0.1:9876;10.0.0.2:9876" python examples/client.py orders
"""

import asyncio
import sys

from routebook import NameServerClient, NameServerError, TopicNotFound


async def show(topic: str) -> None:
    async with NameServerClient() as client:  # found as RocketMQ's own clients find them
        route = await client.route(topic)
        for queues in route.queues:
            group = route.group(queues.broker)
            master = group.master if group is not None else None
            print(f"{queues.broker} at {master}: {queues.write_queues} queues to send to")

        # The same question to all nodes at once: do they agree?
        outcomes = await client.on_every_node(lambda node: node.find_route(topic))
        for node, outcome in outcomes.items():
            agrees = outcome == route
            print(f"{node}: {'the same' if agrees else outcome}")


try:
    asyncio.run(show(sys.argv[1]))
except TopicNotFound as error:
    sys.exit(f"no broker holds it: {error.remark}")
except NameServerError as error:
    sys.exit(str(error))
