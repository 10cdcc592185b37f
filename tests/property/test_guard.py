"""Whatever brokers do, the guard holds nobody for longer than it may, and its figures add up."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from routebook.events import Cause, Event, GuardEngaged, GuardReleased
from routebook.slices import carried_out
from support.silence import ALL, HOLD_MS, TIMEOUT_MS, Silence

SOME = st.sets(st.sampled_from(ALL), max_size=len(ALL))
ONE = st.sampled_from(ALL)
STEP_MS = 700


class GuardMachine(RuleBasedStateMachine):
    @initialize(brokers=st.integers(8, len(ALL)))
    def start(self, brokers: int) -> None:
        self.silence = Silence(brokers)
        self.told = 0  # events looked at
        self.suspects: list[str] = []
        self.links = 100

    @rule(numbers=SOME, elsewhere=st.booleans())
    def heartbeats(self, numbers: set[int], elsewhere: bool) -> None:
        if elsewhere:
            self.links += 1
        for number in numbers & self.silence.live:
            self.silence.hear(number, link=self.links if elsewhere else None)

    @rule(numbers=SOME)
    def registers(self, numbers: set[int]) -> None:
        self.silence.register(*numbers)

    @rule(number=ONE)
    def says_goodbye(self, number: int) -> None:
        if number in self.silence.live:
            self.silence.unregister(number)

    @rule(number=ONE)
    def hangs_up(self, number: int) -> None:
        closing = self.silence.table.close_link(number + 1, Cause.CONNECTION_CLOSED, "p")
        events, _ = carried_out(closing)
        self.silence.events += events

    @rule(numbers=SOME)
    def connections_fall_idle(self, numbers: set[int]) -> None:
        self.silence.idle(*numbers)

    @rule()
    def an_administrator_releases(self) -> None:
        self.silence.release()
        assert self.silence.held == set()

    @rule(ms=st.integers(1, STEP_MS))
    def time_passes(self, ms: int) -> None:
        silence = self.silence
        silence.pass_time(ms)
        now_ms = silence.now_ms
        assert silence.held <= silence.live
        for number in silence.live:
            deadline_ms = silence.member(number).heard_ms + TIMEOUT_MS
            if number not in silence.held:
                assert now_ms <= deadline_ms
            assert now_ms < deadline_ms + STEP_MS + HOLD_MS

    @invariant()
    def what_is_said_adds_up(self) -> None:
        silence = self.silence
        for event in silence.events[self.told :]:
            self._add(event)
        self.told = len(silence.events)
        assert bool(silence.held) == bool(self.suspects) == (silence.table.guard.why is not None)

    def _add(self, event: Event) -> None:
        if isinstance(event, GuardEngaged):
            assert event.limit < event.silent <= event.live
            self.suspects += [suspect.addr for suspect in event.suspects]
        elif isinstance(event, GuardReleased):
            accounted = event.returned + event.left + event.dropped
            assert len(set(self.suspects)) <= accounted <= len(self.suspects)
            self.suspects = []


TestGuard = GuardMachine.TestCase
TestGuard.settings = settings(max_examples=150, stateful_step_count=40)
