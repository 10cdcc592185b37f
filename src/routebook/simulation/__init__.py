"""Brokers through the real agent without a broker behind them, and what goes wrong with them."""

from routebook.simulation.broker import SimulatedBroker
from routebook.simulation.cluster import SimulatedCluster
from routebook.simulation.faults import Fault

__all__ = ["Fault", "SimulatedBroker", "SimulatedCluster"]
