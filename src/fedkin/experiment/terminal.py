"""Progress of runs and fits on the terminal."""

from __future__ import annotations

import sys

from fedkin.core.runner import Progress, RecordLine, Timing
from fedkin.experiment.terminal_tables import PlainStream, printable


class Quiet(Progress):
    """Progress that shows warnings and, if wanted, notes, for output that is not a terminal; a context manager."""

    def __init__(self, notes: bool = True) -> None:
        self.notes = notes

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def warn(self, text: str) -> None:
        print(f"fedkin: {text}", file=sys.stderr)

    def note(self, text: str) -> None:
        if self.notes:
            self.warn(text)


class Bar(Quiet):
    """Progress bar on stderr with the step, the clients that have answered, and the time; a context manager."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Display

        super().__init__()
        text = TextColumn("{task.description}", markup=False)
        columns = (SpinnerColumn(), text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        # The bar is drawn by control characters, which a plain stream would not let through.
        stream = sys.stderr.raw if isinstance(sys.stderr, PlainStream) else sys.stderr
        self.display = Display(*columns, console=Console(file=stream), transient=True)
        self.task = self.display.add_task("", total=None)

    def __enter__(self) -> Progress:
        self.display.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.display.stop()

    def phase(self, text: str) -> None:
        # A new task, since rich resets neither the clock nor the total of one.
        self.display.remove_task(self.task)
        self.task = self.display.add_task(printable(text), total=None)

    def part(self, done: int, total: int) -> None:
        self.display.update(self.task, completed=done, total=total)

    def step(self, line: RecordLine, timing: Timing) -> None:
        from fedkin.report.measures import headlines, phases

        facts = [f"{name} {value}" for name, value in headlines(line)]
        self._print(" · ".join([f"Step {line['step']}", *phases([line]), f"{timing['seconds']:.1f} s", *facts]))

    def warn(self, text: str) -> None:
        self._print(f"fedkin: {printable(text)}")

    def _print(self, text: str) -> None:
        self.display.console.print(text, highlight=False, markup=False)


def show_progress(quiet: bool = False) -> Quiet:
    """Return a progress bar if stderr is a terminal, else one that shows warnings and notes; `quiet`, warnings only."""
    return Bar() if sys.stderr.isatty() and not quiet else Quiet(notes=not quiet)
