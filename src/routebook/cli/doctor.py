"""``routebook doctor``: what is wrong with a cluster."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from routebook.audit.doctor import NAMES, diagnose
from routebook.audit.findings import Finding, Severity
from routebook.audit.settle import SETTLE_S
from routebook.audit.survey import Survey, take_survey
from routebook.cli.errors import CannotAsk, Negative
from routebook.cli.nameservers import Asking, asking_options
from routebook.cli.output import Output, output_options
from routebook.cli.progress import progress_shown
from routebook.documents.audit import diagnosis_document
from routebook.plain import one_line
from routebook.words import counted

NEVER = "never"
STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """``ignored``: how many findings of which names were left out."""

    survey: Survey
    findings: tuple[Finding, ...]
    ignored: Mapping[str, int]


@click.command(epilog="Names of findings:\n\n\b\n" + "\n".join(NAMES))  # \b: a line for each
@click.option("--no-probe", is_flag=True, help="Do not try to connect to brokers.")
@click.option(
    "--settle",
    "settle_s",
    type=click.FloatRange(min=0),
    default=SETTLE_S,
    show_default=True,
    metavar="SECONDS",
    help="Where nodes differ, ask again after this time and believe what lasts; 0: do not.",
)
@click.option(
    "--fail-on",
    type=click.Choice([*(severity.value for severity in Severity), NEVER]),
    default=Severity.ERROR.value,
    show_default=True,
    help="Exit code 1 for a finding this bad or worse.",
)
@click.option(
    "--ignore",
    "ignored",
    type=click.Choice(NAMES),
    multiple=True,
    metavar="NAME",
    help="Leave out findings of this name, one of those below; may be given again.",
)
@output_options
@asking_options
def doctor(
    asking: Asking,
    output: Output,
    no_probe: bool,
    settle_s: float,
    fail_on: str,
    ignored: tuple[str, ...],
) -> None:
    """Look for what is wrong with a cluster: ghosts, clashing names, topics nobody can write, ...

    Every node is asked for all it knows and, if it can tell, for its health; every address it knows
    is tried. Exit code 1 for findings at or above --fail-on, 3 when no node could be asked.
    """

    def looked() -> Diagnosis:
        with progress_shown(wanted=output.watch_s is None) as told:
            survey = asking.run(
                lambda client: take_survey(
                    client, probing=not no_probe, settle_s=settle_s, progress=told
                )
            )
        findings = diagnose(survey)
        return Diagnosis(
            survey,
            tuple(finding for finding in findings if finding.check not in ignored),
            Counter(finding.check for finding in findings if finding.check in ignored),
        )

    diagnosis = output.show(
        looked, table=lambda diagnosis: Group(*_parts(diagnosis)), data=_document
    )
    if not diagnosis.survey.views:
        raise CannotAsk("no node could be asked; check that they run")
    if fail_on == NEVER:
        return
    worst = [f for f in diagnosis.findings if f.severity.rank <= Severity(fail_on).rank]
    if worst:
        raise Negative(f"{_tally(Counter(f.severity for f in worst))} found")


def _parts(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    for finding in diagnosis.findings:
        yield Text.assemble(
            (finding.severity.value, STYLES[finding.severity]),
            (f" {one_line(finding.subject)}", "bold"),
            (f" [{finding.check}]", "dim"),
        )
        for line in finding.evidence:
            yield _indented(Text(one_line(line)))
        yield _indented(Text(f"Remedy: {one_line(finding.remedy)}", style="green"))
        yield Text()
    survey = diagnosis.survey
    seen = ", ".join(
        (
            counted(len(survey.views), "node"),
            counted(len({member.addr for member in survey.members}), "broker"),
            counted(len({t for view in survey.views.values() for t in view.routes}), "topic"),
        )
    )
    found = _tally(Counter(f.severity for f in diagnosis.findings)) or "nothing wrong"
    left_out = ", ".join(f"{count} {name}" for name, count in sorted(diagnosis.ignored.items()))
    yield Text(f"{seen}: {found}" + (f"; ignored: {left_out}" if left_out else ""))


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 4), expand=False)


def _tally(counts: "Counter[Severity]") -> str:
    nouns = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "remark"}
    return ", ".join(
        counted(counts[severity], noun) for severity, noun in nouns.items() if counts[severity]
    )


def _document(diagnosis: Diagnosis) -> dict[str, Any]:
    document = diagnosis_document(diagnosis.survey, diagnosis.findings)
    nodes = document.pop("nodes")
    return {"nodes": nodes, "ignored": dict(sorted(diagnosis.ignored.items())), **document}
