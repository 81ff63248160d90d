"""What a person sees while a run goes on and when it is done."""

from __future__ import annotations

import sys
from typing import Any

from fedkin.run import Line, Outcome, Progress


class Bar(Progress):
    """A live line on stderr: the step, the clients that have answered, and the time; used as a context."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Display

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self.display = Display(*columns, console=Console(stderr=True), transient=True)
        self.task = self.display.add_task("", total=None)

    def __enter__(self) -> Bar:
        self.display.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.display.stop()

    def phase(self, text: str) -> None:
        self.display.remove_task(self.task)
        self.task = self.display.add_task(text, total=None)

    def part(self, done: int, total: int) -> None:
        self.display.update(self.task, completed=done, total=total)

    def step(self, line: Line, seconds: float) -> None:
        facts = "  ".join(f"{name} {_short(value)}" for name, value in _numbers(line))
        self.display.console.print(f"step {line['step']}  {facts}  {seconds:.1f} s", highlight=False)


class Quiet(Progress):
    """Nothing at all, for output that is not a terminal; used as a context like `Bar`."""

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def show_progress() -> Bar | Quiet:
    """A bar if stderr is a terminal, else silence."""
    return Bar() if sys.stderr.isatty() else Quiet()


def print_outcome(outcome: Outcome) -> None:
    """Print a small table of the last step and where the report is; with lines and colour on a terminal only."""
    rows = _rows(outcome)
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, show_header=False)
        table.add_column(style="bold")
        table.add_column(justify="right")
        for name, value in rows:
            table.add_row(name, value)
        Console().print(table)
    else:
        width = max(len(name) for name, _ in rows)
        print("\n".join(f"{name:<{width}}  {value}" for name, value in rows))
    print(f"Report: {outcome.report}")


def _rows(outcome: Outcome) -> list[tuple[str, str]]:
    if not outcome.records:
        return [("steps", "0")]
    last = outcome.records[-1]
    rows = [("steps", str(last["step"]))]
    rows += [(name.replace("_", " "), _short(value)) for name, value in _numbers(last)]
    rows += [("sites missing in the last step", ", ".join(last["missing"]))] if last["missing"] else []
    return [*rows, ("sent to sites", _size(last["sent"])), ("received from sites", _size(last["received"]))]


def _numbers(line: Line) -> list[tuple[str, Any]]:
    """Metrics first, then what the method reports, where they are single numbers; a name is told once."""
    both = {**line["metrics"], **{name: value for name, value in line["values"].items() if name not in line["metrics"]}}
    return [(name, value) for name, value in both.items() if isinstance(value, int | float | str)]


def _short(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
