"""The node's event counter, shared by everything that can change."""


class Revision:
    __slots__ = ("value",)

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def next(self) -> int:
        self.value += 1
        return self.value
