"""The client without asyncio, for scripts: list topics, and keep a value in a NameServer.

python examples/script.py 10.0.0.1:9876
"""

import sys

from routebook import SyncNameServerClient

with SyncNameServerClient(sys.argv[1]) as client:
    for topic in client.topics():
        route = client.find_route(topic)
        print(topic, "on", ", ".join(group.name for group in route.brokers) if route else "nobody")
    client.put_kv("deploys", "orders", "1.4.2")
    print("deployed:", client.find_kv("deploys", "orders"))
