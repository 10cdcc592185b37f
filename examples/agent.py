"""Have a service found through NameServers: registered while it runs, gone when it ends.

NAMESRV_ADDR="10.0.0.1:9876;10.0.0.2:9876" python examples/agent.py 10.0.0.5:8080
"""

import asyncio
import sys

from routebook import BrokerAgent, BrokerSettings, Topic


async def serve(addr: str) -> None:
    settings = BrokerSettings(name="invoices", cluster="services", addr=addr)
    async with BrokerAgent(settings, topics=[Topic("orders"), Topic("refunds")]) as agent:
        for node in agent.status():
            print(node.address, "has it" if node.acknowledged else node.error, flush=True)
        await asyncio.Event().wait()  # the service itself; Ctrl-C ends it


try:
    asyncio.run(serve(sys.argv[1]))
except KeyboardInterrupt:
    print("no NameServer lists it any more")
