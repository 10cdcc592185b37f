"""How far long work is, on the terminal beside the output; nothing when there is no terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from routebook.cli.output import console

OnProgress = Callable[[str, int, int], None]


@contextmanager
def progress_shown(*, wanted: bool = True) -> Iterator[OnProgress]:
    """A callable that is told a stage, how much of it is done, and of how much."""
    screen = console(stderr=True)
    if not wanted or not screen.is_terminal:
        yield lambda stage, done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=screen, transient=True) as shown:
        stages: dict[str, TaskID] = {}

        def told(stage: str, done: int, total: int) -> None:
            if stage not in stages:
                stages[stage] = shown.add_task(stage, total=total)
            shown.update(stages[stage], completed=done, total=total)

        yield told
