"""A NameServer inside an application: on a free port, with its files in a folder.

python examples/embedding.py
"""

import asyncio
import tempfile
from pathlib import Path

from routebook import (
    BrokerAgent,
    BrokerSettings,
    NameServer,
    NameServerClient,
    Topic,
    make_settings,
)


async def main(folder: Path) -> None:
    settings = make_settings(folder, listen_port=0, bind_address="127.0.0.1")
    broker = BrokerSettings(name="broker-a", addr="127.0.0.1:10911")
    async with (
        NameServer(settings) as node,
        BrokerAgent(broker, node.address, topics=[Topic("orders")]),
        NameServerClient(node.address) as client,
    ):
        print("listening on", node.address)
        print("orders is on", (await client.route("orders")).brokers[0].master)
        print("brokers:", node.health()["brokers"])


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))
