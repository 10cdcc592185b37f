"""The gateway: a process of its own that speaks HTTP for one node or several."""
