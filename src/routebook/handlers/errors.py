"""What a node does not let a peer do."""


class NoPermission(Exception):
    """Answered with code 16; the sentence says which setting would allow it."""
