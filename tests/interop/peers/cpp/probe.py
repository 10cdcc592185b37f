"""Probe of the C++ client (PyPI wheel ``rocketmq``): resolve a route, send, print ``sent N``.

Run as a process of its own, with PYTHONPATH naming the folder the wheel is in: the client
starts native threads and writes its logs under HOME.
"""

import sys
from typing import Any


def send(namesrv: str, topic: str, count: int) -> None:
    from rocketmq.client import (  # type: ignore[import-not-found]
        Message,
        Producer,
        SendStatus,
    )

    producer: Any = Producer("cpp-probe")
    producer.set_namesrv_addr(namesrv)
    producer.start()
    try:
        for number in range(count):
            message: Any = Message(topic)
            message.set_body(f"from cpp {number}")
            result = producer.send_sync(message)
            if result.status != SendStatus.OK:
                raise SystemExit(f"message {number}: {result}")
    finally:
        producer.shutdown()


if __name__ == "__main__":
    send(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print("sent", int(sys.argv[3]))
