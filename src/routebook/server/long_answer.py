"""LongAnswer: one that is worked on a slice at a time.

It is known how long that has taken, and whether it can still be begun anew: until the slices say
that there is no way back, nothing has changed.
"""

from collections.abc import Generator
from time import monotonic, thread_time
from typing import cast

from routebook.server.scheduler import TRIAL_S, Lane
from routebook.slices import Slices
from routebook.wire.codes import RequestCode
from routebook.wire.command import Command, Reply

LARGE_BODY = 64 * 1024
HUGE_BODY = 4 * 1024 * 1024  # nobody registers that in a few slices


class LongAnswer:
    def __init__(self, request: Command, slices: Slices[Reply]) -> None:
        self.request = request
        self._slices = cast(Generator[object, None, Reply], slices)
        self._worked_s = 0.0
        self._no_way_back = False

    @property
    def is_large(self) -> bool:
        return len(self.request.body) > LARGE_BODY

    @property
    def is_registration(self) -> bool:
        return self.request.code == RequestCode.REGISTER_BROKER

    def lane(self, *, laborious: bool) -> Lane:
        """Where it belongs; ``laborious``: the last registration of this peer took long."""
        if not self.is_registration:
            return Lane.CALL
        large = laborious or len(self.request.body) > HUGE_BODY
        return Lane.LARGE if large else Lane.REGISTRATION

    def advance(self, until: float) -> Reply | None:
        """Work until the answer is there, or the time is up."""
        began_s = thread_time()
        try:
            while True:
                if next(self._slices):
                    self._no_way_back = True
                if monotonic() > until:
                    return None
        except StopIteration as done:
            return cast(Reply, done.value)
        finally:
            self._worked_s += thread_time() - began_s

    @property
    def was_laborious(self) -> bool:
        return self._worked_s > TRIAL_S

    @property
    def outlasts_its_trial(self) -> bool:
        """Whether it has taken long, and can still be begun anew."""
        return self.was_laborious and not self._no_way_back

    def close(self) -> None:
        """Give up what was done of it."""
        self._slices.close()
