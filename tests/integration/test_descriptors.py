"""Connections leave room for the node's own files, however few files there are."""

from contextlib import ExitStack
from pathlib import Path

from support import raw
from support.brokers import Broker
from support.builders import registration_body
from support.nodes import NodeProcess
from support.waiting import wait_for

FILES = 200


def test_more_connections_than_files_leave_those_served_and_the_disk_alone(
    tmp_path: Path,
) -> None:
    node = NodeProcess(tmp_path, begun_by=["sh", "-c", f'ulimit -n {FILES} && exec "$@"', "sh"])
    with ExitStack() as stack:
        stack.enter_context(node)
        broker = stack.enter_context(node.connect())
        broker.ask(raw.REGISTER, Broker().fields, registration_body(["orders", "payments"]))
        (said,) = node.lines_with("connections at once, not 65536")
        assert f"may open {FILES} files" in said
        bound = int(said.split("serving ")[1].split()[0])
        assert bound < FILES - 60

        others = [stack.enter_context(node.connect()) for _ in range(FILES + 50)]
        wait_for("the refusals", lambda: node.lines_with("refusing connections"))

        # Those who were there are served, and what is to be written down is.
        assert broker.call(raw.ROUTE, topic="orders").code == 0
        assert others[0].call(raw.ROUTE, topic="orders").code == 0
        fields = {"namespace": "n", "key": "k", "value": "v"}
        assert others[1].ask(raw.PUT_KV, fields).code == 0
        assert len(node.lines_with("refusing connections")) == 1
        assert node.lines_with("ERROR") == []
        assert len(list(Path(f"/proc/{node.process.pid}/fd").iterdir())) <= FILES - 32
        assert '"k":"v"' in node.kv_path.read_text()

        for peer in others[2:]:
            peer.socket.close()
        wait_for("room", lambda: _is_served(node))


def _is_served(node: NodeProcess) -> bool:
    with node.connect() as late:
        try:
            return late.call(raw.ROUTE, topic="orders").code == 0
        except (OSError, raw.Hangup):
            return False
