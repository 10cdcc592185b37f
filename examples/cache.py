"""Choose a queue to send to, and another one when that fails.

NAMESRV_ADDR=10.0.0.1:9876 python examples/cache.py orders
"""

import asyncio
import sys

from routebook import MessageQueue, NameServerClient, RouteCache


async def send(address: str, queue: MessageQueue, message: bytes) -> None:
    """Stands for your own way of sending; this one only tries to connect."""
    host, _, port = address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(message)
    writer.close()


async def main(topic: str) -> None:
    async with NameServerClient() as client, RouteCache(client, latency_faults=True) as cache:
        cache.listen(lambda change: print("the route changed,", change))
        await cache.route(topic)  # asks; from now on it is kept fresh in the background
        failed: MessageQueue | None = None
        for _ in range(3):
            queue = cache.pick(topic, avoiding=failed)
            address = None if queue is None else cache.address_of(queue)
            if queue is None or address is None:
                sys.exit("no broker takes messages")
            try:
                await send(address, queue, b"hello")
            except OSError as error:
                print(f"{queue.broker} at {address} failed: {error}")
                cache.failed(queue, reachable=False)  # have its route asked for again
                failed = queue
            else:
                print(f"sent to queue {queue.queue_id} of {queue.broker} at {address}")
                cache.sent(queue, latency_ms=1.0)
                return


asyncio.run(main(sys.argv[1]))
