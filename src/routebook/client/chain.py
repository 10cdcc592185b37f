"""Chain: whether frames of a watch follow each other without a gap, and never go back."""

from routebook.wire.watching import Push


class BrokenChain(Exception):
    """A frame that does not follow the one before it."""


class Chain:
    """Begins where the answer to a WATCH says."""

    def __init__(self, boot: str, rev: int) -> None:
        self.boot = boot
        self.rev = rev
        self._n = 0

    def follow(self, push: Push) -> None:
        """Raises BrokenChain."""
        if push.boot != self.boot:
            raise BrokenChain(f"boot {push.boot} after {self.boot}")
        if push.n != self._n + 1 or push.after != self.rev:
            raise BrokenChain(
                f"frame {push.n} after revision {push.after} follows frame {self._n} of {self.rev}"
            )
        if push.rev < self.rev:
            raise BrokenChain(f"revision {push.rev} follows {self.rev}")
        self._n, self.rev = push.n, push.rev
