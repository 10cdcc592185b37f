"""The journal: what happened on a node, in order, on disk."""
