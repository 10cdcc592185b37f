"""The cluster of deploy/compose as processes: its settings, its broker.conf, other addresses."""

from interop.support.launcher import Launcher
from interop.support.peers import NEW
from interop.support.remoting import broker_addrs
from routebook.settings import KEYS
from support.deploying import DEPLOY, document, properties
from support.waiting import wait_for

COMPOSE = DEPLOY / "compose" / "compose.yaml"
VARIABLES = {variable: key.name for key in KEYS.values() for variable in key.variables}
OTHER_HERE = {"nameServers", "advertisedAddress", "gatewayBind"}  # names that only compose knows
OWN = {"namesrvAddr", "brokerClusterName", "brokerName", "brokerId", "listenPort"}


def test_the_broker_registers_with_all_nodes(launcher: Launcher) -> None:
    services = document(COMPOSE)["services"]
    told = properties(COMPOSE.parent / "broker.conf")
    names = [address.partition(":")[0] for address in told["namesrvAddr"].split(";")]
    nodes = []
    for name in names:
        values = {VARIABLES[key]: text for key, text in services[name]["environment"].items()}
        nodes.append(launcher.node({k: v for k, v in values.items() if k not in OTHER_HERE}))
    broker = launcher.broker(
        NEW,
        ";".join(node.address for node in nodes),
        name=told["brokerName"],
        cluster=told["brokerClusterName"],
        settings={key: value for key, value in told.items() if key not in OWN},
        registered=False,
    )
    address = f"{told['brokerIP1']}:{broker.port}"
    wait_for(
        "the broker at every node",
        lambda: [broker_addrs(node.address, told["brokerName"]) for node in nodes],
        until=lambda found: found == [{"0": address}] * 3,
    )
