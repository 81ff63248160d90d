"""Output on the terminal during a run and at its end."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from fedkin.core.progress import Progress, RecordLine, Timing
from fedkin.data.population import client_name
from fedkin.data.preparing.profile.cluster_profile import ClusterProfile
from fedkin.experiment.client_remarks import CLIENTS, fewer_clusters, members, notes_on_clusters
from fedkin.experiment.measure_titles import (
    Measure,
    formed,
    measures,
    method_remarks,
    number,
    phased,
    phases,
    reached,
    training_rounds,
    written,
)
from fedkin.experiment.outputs import load_profile
from fedkin.experiment.report_content.cluster_words import remarks, sentences
from fedkin.experiment.report_content.column_words import described
from fedkin.experiment.run_folder import read_timing
from fedkin.experiment.run_loop import RunOutcome
from fedkin.experiment.terminal_tables import drawing_on, in_shell, print_table, printable, sentence_text
from fedkin.report.numbers import format_bytes, pluralize

_MAX_SENTENCES = 12


class Bar(Progress):
    """Progress bar on stderr with the step, the clients that have answered, and the time; a context manager."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Display

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self.display = Display(*columns, console=Console(file=drawing_on(sys.stderr)), transient=True)
        self.task = self.display.add_task("", total=None)

    def __enter__(self) -> Bar:
        self.display.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.display.stop()

    def phase(self, text: str) -> None:
        self.display.remove_task(self.task)
        self.task = self.display.add_task(printable(text), total=None)

    def part(self, done: int, total: int) -> None:
        self.display.update(self.task, completed=done, total=total)

    def step(self, line: RecordLine, timing: Timing) -> None:
        facts = "".join(f" · {name} {value}" for name, value in _headlines(line))
        phase = "".join(f" · {phase}" for phase in phases([line]))
        text = f"Step {line['step']}{phase} · {timing['seconds']:.1f} s{facts}"
        self.display.console.print(text, highlight=False, markup=False)

    def warn(self, text: str) -> None:
        self.display.console.print(f"fedkin: {printable(in_shell(text))}", highlight=False, markup=False)


class Quiet(Progress):
    """Progress that shows warnings and, if wanted, notes, for output that is not a terminal; a context manager."""

    def __init__(self, notes: bool = True) -> None:
        self.notes = notes

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def warn(self, text: str) -> None:
        print(f"fedkin: {in_shell(text)}", file=sys.stderr)

    def note(self, text: str) -> None:
        if self.notes:
            self.warn(text)


def show_progress(quiet: bool = False) -> Bar | Quiet:
    """Return a progress bar if stderr is a terminal, else one that shows warnings and notes; `quiet`, warnings only."""
    return Bar() if sys.stderr.isatty() and not quiet else Quiet(notes=not quiet)


def show_outcome(outcome: RunOutcome, as_json: bool, quiet: bool) -> None:
    """Print the outcome of a run as JSON or as text, or print nothing."""
    if as_json:
        print(json.dumps(outcome_tree(outcome)))
    elif not quiet:
        print_outcome(outcome)


def outcome_tree(outcome: RunOutcome) -> dict[str, Any]:
    """Return a run's last record as plain values, with its folder, method, seed, seconds and report."""
    last = outcome.records[-1] if outcome.records else {"step": 0}
    return {
        "run": str(outcome.folder),
        "method": outcome.config.method_name,
        "seed": outcome.config.seed,
        **last,
        "seconds": _seconds(outcome),
        "report": str(outcome.report),
    }


def print_outcome(outcome: RunOutcome) -> None:
    """Print a table of the last step, sentences on the clusters, warnings, and the path of the report."""
    print_table(_rows(outcome), left=(0,) if sys.stdout.isatty() else (0, 1), bold=True)
    profile = load_profile(outcome.folder)
    for text in cluster_lines(profile, outcome.clients):
        print(sentence_text(text, "  "))
    of_clients = outcome.config.method.clusters == "clients" and bool(outcome.records)
    listed = members(outcome.records[-1]["values"].get("labels", []), outcome.clients) if of_clients else []
    for text in listed:
        print(sentence_text(text, "  "))
    asked = getattr(outcome.config.method, "n_clusters", None)
    said = fewer_clusters(outcome.n_clusters or 0, asked, "samples")
    said += notes_on_clusters(outcome.records[-1], outcome.guess, outcome.notes, asked) if of_clients else []
    for text in [*method_remarks(outcome.records), *said]:
        print(sentence_text(f"Note: {text}", "  "))
    if listed:
        print(f"Clients: {outcome.folder / CLIENTS}")
    print(f"Report: {outcome.report}")


def cluster_lines(profile: ClusterProfile | None, clients: Sequence[str]) -> list[str]:
    """Return sentences on the clusters of a run's samples, and what a reader should know; none without a profile."""
    if profile is None:
        return []
    columns = described(profile)
    said = _first(sentences(profile, clients, columns), (profile.samples > 0).tolist())
    return [*said, *remarks(profile, clients, columns)]


def _first(said: Sequence[str], described: Sequence[bool]) -> list[str]:
    """Return the first sentences on described clusters, one that says where the others are, and one on the rest."""
    spoken = [text for text, known in zip(said, described, strict=True) if known]
    silent = [text for text, known in zip(said, described, strict=True) if not known]
    if len(silent) > 1:
        silent = [f"{pluralize(len(silent), 'cluster')}: too few samples at any one client to be described."]
    more = len(spoken) - _MAX_SENTENCES
    rest = [f"... and {pluralize(more, 'more cluster')}, in the report."] if more > 0 else []
    return [*spoken[:_MAX_SENTENCES], *rest, *silent]


def _rows(outcome: RunOutcome) -> list[tuple[str, str]]:
    if not outcome.records:
        return [("Steps", "0")]
    last = outcome.records[-1]
    rows = _headlines(last) + _moments(outcome)
    if last["missing"]:
        missing = [client_name(int(client), outcome.clients) for client in last["missing"]]
        rows.append(
            ("Missing in the last step", f"{'client' if len(missing) == 1 else 'clients'} {', '.join(missing)}")
        )
    rows.append(("Sent to the clients", format_bytes(last["sent"])))
    rows.append(("Received from them", format_bytes(last["received"])))
    steps = ", ".join(text for text in (str(last["step"]), phased(outcome.records)) if text)
    seconds = _seconds(outcome)
    return [*rows, ("Steps", steps), *([] if seconds is None else [("Training time", f"{seconds:.1f} s")])]


def _moments(outcome: RunOutcome) -> list[tuple[str, str]]:
    """Return table rows for the round in which clusters were formed and the step that reached the target."""
    rows = []
    if (when := formed(outcome.records)) is not None:
        rows.append(("Clusters formed", f"round {when}"))
    target = outcome.config.target
    if target.metric is not None and target.reach is not None:
        title = measures(*outcome.records).get(target.metric, Measure(target.metric, "")).title
        found = reached(outcome.records, target.metric, target.reach)
        never = all(number(line, target.metric) is None for line in outcome.records)
        missed = "not measured" if never else "not reached"
        rows.append((f"{title} {target.reach:g}", _reached_at(outcome, *found) if found else missed))
    return rows


def _reached_at(outcome: RunOutcome, step: int, traffic: int) -> str:
    """Describe when a target was reached: step, bytes, and rounds of training if there are other phases."""
    rounds = training_rounds(outcome.records, step)
    training = f", {pluralize(rounds, 'round')} of training" if phases(outcome.records) else ""
    return f"step {step}{training}, after {format_bytes(traffic)}"


def _headlines(line: RecordLine) -> list[tuple[str, str]]:
    known = measures(line)
    names = [n for name, measure in known.items() if measure.headline for n in (name, measure.beside) if n in known]
    return [(known[name].title, written(line, name, known[name])) for name in names]


def _seconds(outcome: RunOutcome) -> float | None:
    """Return the seconds of all steps, without the preparation (step 0); ``None`` if unknown."""
    found = [line["seconds"] for line in read_timing(outcome.folder) if line["step"] > 0 and "seconds" in line]
    return sum(found) if found else None
