"""What the state refuses.

StateError
TableFull   a limit on what one node remembers
NoRoom      the memory it may take
"""


class StateError(Exception):
    """A fair request that the state refuses."""


class TableFull(StateError):
    """The node holds as much as it may."""

    def __init__(self, what: str, limit: int, setting: str) -> None:
        super().__init__(f"{what} exceed the limit of {limit} ({setting})")
        self.limit = limit


class NoRoom(StateError):
    """The memory of the node is used up; the account says how."""


class NotDurable(StateError):
    """A change was not applied because its file could not be written."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} cannot be written ({reason}); nothing was changed")
