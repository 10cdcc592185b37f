"""What ``routebook history`` shows of sessions, of explanations, and of nodes that disagreed."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from routebook.cli.columns import table_of
from routebook.documents.history.events import SESSIONS, divergence_columns
from routebook.documents.history.routes import Origin
from routebook.history.comparing.comparison import ClockTold, ComparisonAnswer
from routebook.history.comparing.divergences import Blind
from routebook.history.comparing.skew import Skew
from routebook.history.telling.explain import Line, as_text
from routebook.history.telling.sentences import sentence
from routebook.history.telling.sessions import BrokerHistory
from routebook.history.telling.silences import silence_sentence
from routebook.journal.record import Record
from routebook.plain import one_line
from routebook.words import counted, span, to_second

_MOST_REMARKS = 20


# -- broker


def sessions(answers: Iterable[tuple[str, BrokerHistory]]) -> Iterator[RenderableType]:
    for number, (node, found) in enumerate(answers):
        if number:
            yield Text()
        yield Text(f"{node}\n", style="bold")
        yield table_of(SESSIONS, found.sessions)
        yield from _remarks("conflicts", found.conflicts)
        yield from _remarks("refused requests", found.refusals)


def _remarks(title: str, records: Sequence[Record]) -> Iterator[RenderableType]:
    if not records:
        return
    yield Text(f"\n{title}: {len(records)}", style="bold")
    for record in records[-_MOST_REMARKS:]:
        yield Text(f"{to_second(record.wall_ms)} {one_line(sentence(record.event))}")
    if len(records) > _MOST_REMARKS:
        yield Text(f"and {len(records) - _MOST_REMARKS} before")


# -- explain


def explanation(lines: Sequence[Line], origins: Iterable[Origin]) -> Iterator[RenderableType]:
    for origin in origins:
        yield Text(f"{origin.node}, {origin.source}", style="bold")
        if origin.partial:
            yield Text(_not_all(origin), style="yellow")
    yield Text("\n".join(map(one_line, as_text(lines))))


def _not_all(origin: Origin) -> str:
    return f"{origin.node}: what was before is not known, {one_line(origin.partial)}"


# -- compare


_MOST_BLIND = 10


def comparison(answer: ComparisonAnswer) -> Iterator[RenderableType]:
    yield Text(
        f"{' and '.join(answer.nodes)} from {to_second(answer.from_ms)} to"
        f" {to_second(answer.to_ms)}",
        style="bold",
    )
    for clock in answer.clocks:
        yield Text(f"clock of {_whose(clock, answer)}: {_skew(clock.skew, answer.nodes[0])}")
    for node, why in answer.partial.items():
        yield Text(f"{node}: what was before its records is not known, {one_line(why)}")
    for node, blind in answer.blind.items():
        yield from _blind(node, blind)
    found = answer.comparison
    if found.short:
        lines = counted(found.short, "difference")
        yield Text(f"{lines} shorter than {span(found.uncertainty_ms)} not shown")
    yield Text()
    if not found.compared_ms:
        yield Text(f"nothing can be compared: {_why_nothing(answer)}", style="bold yellow")
        return
    if not found.divergences:
        sure = not answer.partial and not any(answer.blind.values())
        yield Text("the nodes agreed" if sure else "the nodes agreed wherever both are known")
        return
    yield table_of(divergence_columns(answer.nodes), found.divergences)


def _whose(clock: ClockTold, answer: ComparisonAnswer) -> str:
    if sum(each.node == clock.node for each in answer.clocks) == 1:
        return clock.node
    return f"{clock.node} from {to_second(clock.from_ms)} to {to_second(clock.to_ms)}"


def _why_nothing(answer: ComparisonAnswer) -> str:
    if not answer.clocks_known:
        return "how far apart the clocks of the nodes are is not known"
    return "at no time is it known of two nodes what they told"


def _blind(node: str, blind: Sequence[Blind]) -> Iterator[RenderableType]:
    silences = [each.silence for each in blind if each.silence]
    for silence in silences[:_MOST_BLIND]:
        yield Text(f"{node}: {silence_sentence(silence)}")
    if len(silences) > _MOST_BLIND:
        yield Text(
            f"{node}: and {len(silences) - _MOST_BLIND} more times of which it knows nothing"
        )


def _skew(skew: Skew, first: str) -> str:
    seen = f"{counted(skew.samples, 'registration')} seen by both"
    if skew.offset_ms is None:
        few = f"{seen}, too few that agree" if skew.samples else "nothing was surely seen by both"
        return f"not known against that of {first}, {few}; nothing is compared by it"
    if skew.assumed:
        return f"taken to agree with that of {first} within {span(skew.uncertainty_ms)} ({seen})"
    if not skew.samples and not skew.asked:
        return "the one times are given by"
    ahead = "ahead of" if skew.offset_ms >= 0 else "behind"
    how = "asked for the time" if skew.asked else seen
    return (
        f"{span(abs(skew.offset_ms))} {ahead} that of {first}, give or take"
        f" {span(skew.uncertainty_ms)} ({how})"
    )
