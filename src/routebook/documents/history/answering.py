"""Answering: questions about the past put to several journals, and documents of what they say."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from routebook.documents.history.routes import Origin, time_told
from routebook.documents.suggestions import close_names
from routebook.history import questions
from routebook.history.finding.journals import AfterJournal, BeforeJournal, Journal, Progress
from routebook.history.finding.recent import Source
from routebook.journal.errors import JournalError
from routebook.journal.view import View

Found = TypeVar("Found")


class Unanswered(JournalError):
    """No journal has an answer; says why, and what may have been meant."""


class Answering:
    """The journals a question goes to, and what kept them from answering it.

    Raises JournalError where one of them cannot be read at all.
    """

    def __init__(self, asked: Sequence[Source], told: Progress) -> None:
        self.troubles: list[str] = []
        self.journals = [source.journal(told) for source in asked]
        self.origins = [
            Origin(journal.node, source.name, journal.partial)
            for journal, source in zip(self.journals, asked, strict=True)
        ]

    def each(self, ask: Callable[[Journal], Found]) -> list[Found]:
        """What each journal answers; raises Unanswered when none does."""
        answers: list[Found] = []
        for journal in self.journals:
            try:
                answers.append(ask(journal))
            except (BeforeJournal, AfterJournal) as error:
                self.troubles.append(str(error))
        if not answers:
            raise Unanswered("; ".join(self.troubles))
        return answers

    def unknown(self, said: str, name: str, names: Callable[[View], Iterable[str]]) -> Unanswered:
        """That nothing is known of ``name``, and which of ``names`` may have been meant."""
        told = f"{said} is known of {time_told(self.journals)}"
        known = {each for view in self.each(questions.last_view) for each in names(view)}
        close = close_names(name, known)
        return Unanswered(f"{told}; {close}" if close else told)

    def all_troubles(self) -> list[str]:
        """What could not be answered, and what is damaged."""
        damage = (
            f"{journal.node}: {each}"
            for journal in self.journals
            for each in journal.damage.sentences()
        )
        return [*self.troubles, *damage]


def broker_names(view: View) -> set[str]:
    return {each.broker for each in view.brokers()}
