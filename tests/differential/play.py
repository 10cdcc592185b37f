"""Play one sequence against both servers and compare every answer."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import count

from differential.canonical import (
    EXCEPTION,
    REASON,
    SENTENCE,
    Answer,
    answer_of,
    canonical,
    is_exception,
)
from differential.model import Model
from differential.requests import request_of
from differential.rules import JAVA, OURS, Rule
from differential.steps import (
    Asked,
    Close,
    Profile,
    Register,
    Sequence,
    Step,
    Unregister,
    named,
    sentence,
)
from differential.strategies import NAMESPACES
from differential.survey import CONNECTION as SURVEYING
from differential.survey import SURVEY
from differential.wire import Connection, Request
from interop.support.remoting import loads_with_bare_keys

SETTLE_S = 2.0
POLL_S = 0.002
UNSEEN_S = 0.03  # for a oneway request that nothing will show to have been carried out
BARRIER = {
    "clusterName": "barrier",
    "brokerName": "barrier",
    "brokerAddr": "barrier:1",
    "haServerAddr": "barrier:2",
    "brokerId": "0",
}
NOTHING = '{"brokerAddrTable":{},"clusterAddrTable":{}}'
MAX_CLEANINGS = 5
Tables = dict[str, dict[str, str | None]]


class Disagreement(AssertionError):
    """Two answers differ and no rule says they may, or the rules describe something else.

    ``only_java``: ours answered as expected. Java carries out some requests later; when it was
    not waited for long enough, the same sequence will not show it again.
    """

    def __init__(self, report: str, *, only_java: bool = False) -> None:
        super().__init__(report)
        self.only_java = only_java


@dataclass(frozen=True, slots=True)
class Question:
    """One compared pair of answers."""

    step: Asked
    java: Answer | None
    ours: Answer | None

    @property
    def differs(self) -> bool:
        return self.java != self.ours


class Side:
    """One of the two servers, with the connections of the sequence being played."""

    def __init__(self, title: str, address: tuple[str, int]) -> None:
        self.title = title
        self._address = address
        self._connections: dict[int, Connection] = {}
        self.control = Connection(address)

    def connection(self, number: int) -> Connection:
        """Opened when it is first used, and again after it was closed."""
        if number not in self._connections:
            self._connections[number] = Connection(self._address)
        return self._connections[number]

    def hang_up(self, number: int) -> None:
        connection = self._connections.pop(number, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        self.hang_up_all()
        self.control.close()

    def hang_up_all(self) -> None:
        for number in list(self._connections):
            self.hang_up(number)

    def find_table(self, namespace: str) -> dict[str, str | None] | None:
        """None for an unknown namespace, else its (emptied) table."""
        reply = self.control.call(Request(219, {"namespace": namespace}))
        if not reply.body:
            return None
        assert reply.body == b'{"table":{}}', f"{self.title} was not cleaned: {reply.body!r}"
        return {}

    def known_tables(self) -> Tables:
        tables = {namespace: self.find_table(namespace) for namespace in NAMESPACES}
        return {namespace: table for namespace, table in tables.items() if table is not None}

    def cluster_info(self, marker: str) -> str:
        """Empty when Java changed its tables while it read them (upstream issue 1432)."""
        body = self.control.call(Request(106)).body
        return canonical(body.decode(), marker) if body else ""


class Arena:
    """Both servers; plays sequences one after the other and counts what the rules excused."""

    def __init__(self, java: tuple[str, int], ours: tuple[str, int]) -> None:
        self.java = Side("Java", java)
        self.ours = Side("ours", ours)
        self.applied: Counter[Rule] = Counter()
        self.compared = 0
        self.differed = 0
        self.unrepeated: list[str] = []
        """What Java alone did, once; whoever explores says how much of that is too much."""
        self._rules = OURS
        self._profile = Profile()
        self._numbers = count(1)

    def close(self) -> None:
        self.java.close()
        self.ours.close()

    @contextmanager
    def judging_by(self, rules: frozenset[Rule]) -> Iterator[None]:
        """Allow only these differences, to see that others are noticed."""
        self._rules = rules
        try:
            yield
        finally:
            self._rules = OURS

    def play(self, sequence: Sequence) -> None:
        """Raises Disagreement."""
        self._use(sequence.profile)
        marker = f"s{next(self._numbers)}_"
        round_ = Round(self.java, self.ours, sequence, marker, self._rules)
        try:
            round_.play()
        finally:
            round_.clean_up()
        self.compared += len(round_.questions)
        self.differed += sum(question.differs for question in round_.questions)
        self.applied += round_.applied_rules()

    def _use(self, profile: Profile) -> None:
        if profile == self._profile:
            return
        lines = [
            f"{_camel(field.name)}={str(getattr(profile, field.name)).lower()}\n"
            for field in fields(profile)
        ]
        for side in (self.java, self.ours):
            reply = side.control.call(Request(318, body="".join(lines).encode()))
            assert b'"code":0' in reply.header, f"{side.title} refused {lines}: {reply.header!r}"
        self._profile = profile


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class Round:
    """One sequence, under the names its marker makes its own."""

    def __init__(
        self,
        java: Side,
        ours: Side,
        sequence: Sequence,
        marker: str,
        rules: frozenset[Rule] = OURS,
    ) -> None:
        self._rules = rules
        self._java = java
        self._ours = ours
        self._sequence = sequence
        self._marker = marker
        self._java_kv = java.known_tables()
        self._our_kv = ours.known_tables()
        self._java_model = Model(JAVA, sequence.profile, self._java_kv)
        self._our_model = Model(rules, sequence.profile, self._our_kv)
        self._steps: tuple[Step, ...] = named(sequence.steps, marker)
        self._survey: tuple[Asked, ...] = named(SURVEY, marker)
        self.questions: list[Question] = []

    def play(self) -> None:
        for index, step in enumerate(self._steps):
            if isinstance(step, Close):
                self._close(step)
            else:
                self._ask(index, step)
        self._ask_survey()

    # -- steps

    def _close(self, step: Close) -> None:
        self._java.hang_up(step.connection)
        self._ours.hang_up(step.connection)
        self._java_model.close(step)
        self._our_model.close(step)
        self._await(self._java, self._java_model)
        self._await(self._ours, self._our_model)

    def _ask(self, index: int, step: Asked) -> None:
        if isinstance(step, Register) and step.stamp and step.stamp.timestamp is None:
            time.sleep(0.002)  # Java stamps it with its clock; let that have moved on
        request = request_of(step)
        seen_before = self._java_model.cluster_info()
        expected_of_java = self._java_model.answer(step)
        expected_of_ours = self._our_model.answer(step)
        connections = [side.connection(step.via.connection) for side in (self._java, self._ours)]
        for connection in connections:
            connection.send(request)
        java = ours = None
        if step.via.oneway:
            connections[1].call(Request(30_001))  # ours carries out one after the other
            self._await(self._java, self._java_model)
            if self._java_model.cluster_info() == seen_before:
                time.sleep(UNSEEN_S)
        else:
            java, ours = (answer_of(c.receive(), self._marker) for c in connections)
        if isinstance(step, Unregister):
            self._pass_barrier()
        self._compare(index, step, (expected_of_java, expected_of_ours), (java, ours))

    def _ask_survey(self) -> None:
        requests = [request_of(step) for step in self._survey]
        java = self._java.connection(SURVEYING).call_all(requests)
        ours = self._ours.connection(SURVEYING).call_all(requests)
        for step, java_reply, our_reply in zip(self._survey, java, ours, strict=True):
            expected = (self._java_model.answer(step), self._our_model.answer(step))
            actual = (answer_of(java_reply, self._marker), answer_of(our_reply, self._marker))
            self._compare(None, step, expected, actual)

    def _compare(
        self,
        index: int | None,
        step: Asked,
        expected: tuple[Answer | None, Answer | None],
        actual: tuple[Answer | None, Answer | None],
    ) -> None:
        self.questions.append(Question(step, *actual))
        if all(map(_fits, actual, expected)):
            return
        if actual[0] == actual[1]:
            verdict = "both servers agree, but the model expects something else"
        else:
            verdict = "the servers differ and no rule explains it"
        report = self._report(verdict, index, step, expected, actual)
        raise Disagreement(report, only_java=_fits(actual[1], expected[1]))

    def _report(
        self,
        verdict: str,
        index: int | None,
        step: Asked,
        expected: tuple[Answer | None, Answer | None],
        actual: tuple[Answer | None, Answer | None],
    ) -> str:
        lines = [verdict, f"settings: {_changed(self._sequence.profile)}", "sequence:"]
        for number, played in enumerate(self._sequence.steps[: _upto(index)]):
            lines.append(f"  {number:2} {sentence(played)}")
        asked = "the last of these" if index is not None else f"then {sentence(step)}"
        lines += [
            f"answers to {asked} (@ is {self._marker}):",
            f"  Java          {actual[0]}",
            f"  Java expected {expected[0]}",
            f"  ours          {actual[1]}",
            f"  ours expected {expected[1]}",
        ]
        return "\n".join(lines)

    # -- waiting for what is carried out later

    def _await(self, side: Side, model: Model) -> None:
        """Until the server shows the groups the model has; goes on regardless when it does not."""
        expected = model.cluster_info()
        if _until(lambda: side.cluster_info(self._marker) == expected):
            # Lists are read without a lock there; this one waits for the batch to end.
            side.control.call(Request(901, {"clusterName": "barrier", "brokerName": "barrier"}))

    def _pass_barrier(self) -> None:
        """Until Java has carried out every unregistration sent so far: they form a queue."""
        control = self._java.control
        control.call(Request(103, BARRIER))
        control.call(Request(104, BARRIER))
        members = Request(901, {"clusterName": "barrier", "brokerName": "barrier"})
        tries = 0
        while not _until(lambda: b'"brokerAddrs":{}' in control.call(members).body, 0.3):
            tries += 1
            assert tries < 10, "Java's unregistration queue does not move"
            control.call(Request(104, BARRIER))  # lost with a batch that raised

    # -- which rules were needed

    def applied_rules(self) -> Counter[Rule]:
        """For every rule, how many answers would have been others without it."""
        differing = {i for i, question in enumerate(self.questions) if question.differs}
        if not differing:
            return Counter()
        java = self._replayed(JAVA, self._java_kv, differing)
        ours = self._replayed(self._rules, self._our_kv, differing)
        needed: Counter[Rule] = Counter()
        for rule in self._rules:
            cured = self._replayed(JAVA | {rule}, self._java_kv, differing)
            spoilt = self._replayed(self._rules - {rule}, self._our_kv, differing)
            needed[rule] = sum(cured[i] != java[i] or spoilt[i] != ours[i] for i in differing)
        return +needed

    def _replayed(
        self, rules: frozenset[Rule], kv: Tables, wanted: set[int]
    ) -> dict[int, Answer | None]:
        """The answers of another model to the ``wanted`` questions."""
        model = Model(rules, self._sequence.profile, kv)
        answers: dict[int, Answer | None] = {}
        for step in self._steps:
            if isinstance(step, Close):
                model.close(step)
            else:
                answers[len(answers)] = model.answer(step)
        for index in sorted(wanted - set(answers)):
            answers[index] = model.answer(self.questions[index].step)
        return answers

    # -- leaving nothing behind

    def clean_up(self) -> None:
        """Have both servers forget the sequence; ours does by itself, or it is a bug."""
        self._java.hang_up_all()
        self._ours.hang_up_all()
        self._clean_java()
        for side, model in ((self._java, self._java_model), (self._ours, self._our_model)):
            for namespace in NAMESPACES:
                for key in model.tables.kv.get(namespace, {}):
                    side.control.call(Request(102, {"namespace": namespace, "key": key}))
        left = self._ours.cluster_info(self._marker)
        if left != NOTHING:
            raise Disagreement(f"ours keeps something after all connections closed: {left}")

    def _clean_java(self) -> None:
        control, tables = self._java.control, self._java_model.tables
        unseen = [Request(104, _identity(key[0], "nobody", key[1], 0)) for key in tables.live]
        unseen += [Request(216, {"topic": topic}) for topic in tables.topics]
        if unseen:
            control.call_all(unseen)
        for _ in range(MAX_CLEANINGS):
            left = self._java.cluster_info(self._marker)
            if not left:
                continue
            if left == NOTHING:
                return
            info = loads_with_bare_keys(left.encode())
            groups, clusters = info["brokerAddrTable"], info["clusterAddrTable"]
            for group in groups.values():
                for cluster in {group["cluster"], *clusters}:
                    for broker_id, addr in group["brokerAddrs"].items():
                        identity = _identity(cluster, group["brokerName"], addr, broker_id)
                        control.call(Request(104, identity))
            self._pass_barrier()
            # Java forgets the name of a group only together with its last member.
            for cluster, names in clusters.items():
                for name in names:
                    last = _identity(cluster, name, "last:1", 0)
                    control.call(Request(103, {**last, "haServerAddr": "last:2"}))
                    control.call(Request(104, last))
                    self._pass_barrier()
        raise AssertionError(f"Java cannot be cleaned of {self._marker}")


def _identity(cluster: str, name: str, addr: str, broker_id: int | str) -> dict[str, str]:
    return {
        "clusterName": cluster,
        "brokerName": name,
        "brokerAddr": addr,
        "brokerId": str(broker_id),
    }


def _until(condition: Callable[[], bool], timeout_s: float = SETTLE_S) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _fits(actual: Answer | None, expected: Answer | None) -> bool:
    if actual is None or expected is None:
        return actual is expected
    if expected.remark == EXCEPTION and is_exception(actual.remark):
        return replace(actual, remark=EXCEPTION) == expected
    if expected.remark == SENTENCE and actual.remark is not None:
        return replace(actual, remark=SENTENCE) == expected
    said = (expected.remark or "").partition(REASON)
    if said[1] and (actual.remark or "").startswith(said[0]):
        return replace(actual, remark=expected.remark) == expected
    return actual == expected


def _upto(index: int | None) -> int | None:
    return None if index is None else index + 1


def _changed(profile: Profile) -> str:
    changed = [
        f"{_camel(field.name)}={str(getattr(profile, field.name)).lower()}"
        for field in fields(profile)
        if getattr(profile, field.name) != field.default
    ]
    return " ".join(changed) or "defaults"
