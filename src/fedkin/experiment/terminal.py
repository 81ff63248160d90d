"""Output on the terminal during a run and at its end."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from fedkin.core.errors import listing
from fedkin.core.method import CanCut
from fedkin.core.progress import Progress, RecordLine, Timing
from fedkin.data.checks import Finding
from fedkin.data.population import client_name, short_names
from fedkin.data.profile import ClusterProfile
from fedkin.experiment.outputs import load_profile, load_words
from fedkin.experiment.run import RunOutcome
from fedkin.experiment.run_folder import CLIENTS, read_timing
from fedkin.experiment.terminal_tables import drawing_on, print_table, printable, sentence_text
from fedkin.report.measures import (
    measures,
    method_remarks,
    moments,
    number,
    phased,
    phases,
    privacy_of_samples,
    written,
)
from fedkin.report.numbers import format_bytes, pluralize
from fedkin.report.run_page import AS_GUESSED
from fedkin.report.words import described, remarks, sentences, word_lines


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
        self.display = Display(*columns, console=Console(file=drawing_on(sys.stderr)), transient=True)
        self.task = self.display.add_task("", total=None)

    def __enter__(self) -> Progress:
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
        facts = [f"{name} {value}" for name, value in _headlines(line)]
        text = " · ".join([f"Step {line['step']}", *phases([line]), f"{timing['seconds']:.1f} s", *facts])
        self.display.console.print(text, highlight=False, markup=False)

    def warn(self, text: str) -> None:
        self.display.console.print(f"fedkin: {printable(text)}", highlight=False, markup=False)


def show_progress(quiet: bool = False) -> Quiet:
    """Return a progress bar if stderr is a terminal, else one that shows warnings and notes; `quiet`, warnings only."""
    return Bar() if sys.stderr.isatty() and not quiet else Quiet(notes=not quiet)


def show_outcome(outcome: RunOutcome, as_json: bool, quiet: bool) -> None:
    """Print the outcome of a run as JSON or as text, or print nothing."""
    if as_json:
        print(json.dumps(outcome_tree(outcome)))
    elif not quiet:
        print_outcome(outcome)


def outcome_tree(outcome: RunOutcome) -> dict[str, Any]:
    """Return a run's last record as plain values, with its clusters, what is said of them, and where its files are.

    ``sizes`` are the samples or clients of each cluster, ``clients`` the cluster of each client by name where clients
    are clustered, and ``notes`` those on the data, the method and the clusters.
    """
    labels = _labels(outcome)
    names = short_names(outcome.clients) or [str(client) for client in range(len(labels))]
    return {
        "run": str(outcome.folder),
        "method": outcome.config.method_name,
        "seed": outcome.config.seed,
        **(outcome.records[-1] if outcome.records else {"step": 0}),
        "n_clusters": _n_clusters(outcome),
        "sizes": _sizes(outcome),
        "clients": dict(zip(names, labels, strict=False)),
        "sentences": _sentences(outcome),
        "notes": list(dict.fromkeys([*outcome.notes, *_notes(outcome)])),
        "seconds": _seconds(outcome),
        "report": str(outcome.report),
    }


def print_outcome(outcome: RunOutcome) -> None:
    """Print a table of the last step, sentences on the clusters, warnings, and the path of the report."""
    print_table(_rows(outcome), left=(0, 1))
    for text in [*_sentences(outcome), *(f"Note: {note}" for note in [*_notes(outcome), *_next_step(outcome)])]:
        print(sentence_text(text, "  "))
    if len(set(_labels(outcome)) - {-1}) > 1:
        print(f"Clients: {outcome.folder / CLIENTS}")
    print(f"Report: {outcome.report}")


def _labels(outcome: RunOutcome) -> list[int]:
    """Return the clusters of the clients, -1 for none, in order of id; empty where samples are clustered."""
    of_clients = outcome.config.method.traits.clusters == "clients" and bool(outcome.records)
    return outcome.records[-1]["values"].get("labels", []) if of_clients else []


def _n_clusters(outcome: RunOutcome) -> int | None:
    """Return the number of clusters with members, ``None`` where it is not known."""
    return len(set(_labels(outcome)) - {-1}) or outcome.n_clusters


def _sizes(outcome: RunOutcome) -> list[int]:
    """Return the number of clients in each cluster, or of samples, by the files of labels."""
    counts = Counter(_labels(outcome))
    for path in sorted(outcome.folder.glob("labels/*.csv")):
        with path.open(encoding="utf-8", newline="") as lines:
            counts.update(int(row["cluster"]) for row in csv.DictReader(lines))
    return [counts[cluster] for cluster in range(max(counts, default=-1) + 1)]


def _sentences(outcome: RunOutcome) -> list[str]:
    """Return sentences on the clusters of samples, or on which clients are in which cluster."""
    lines = [*cluster_lines(load_profile(outcome.folder), outcome.clients), *word_lines(load_words(outcome.folder))]
    return [*lines, *members(_labels(outcome), outcome.clients)]


def _notes(outcome: RunOutcome) -> list[str]:
    """Return what a reader of the clusters should not miss, by the method and by their number."""
    n_clusters = getattr(outcome.config.method, "n_clusters", None)
    notes = [*method_remarks(outcome.records), *fewer_clusters(outcome.n_clusters or 0, n_clusters, "samples")]
    if outcome.config.method.traits.clusters == "clients" and outcome.records:
        notes += notes_on_clusters(outcome.records[-1], outcome.guess, outcome.notes, n_clusters)
    return notes


def _next_step(outcome: RunOutcome) -> list[str]:
    """Return a sentence on what to do where all is one cluster, though nobody asked for one."""
    method = outcome.config.method
    if _n_clusters(outcome) != 1 or method.traits.baseline or getattr(method, "n_clusters", None) == 1:
        return []
    parts = min(3, int(number(outcome.records[-1], "nodes") or 3))
    if isinstance(method, CanCut) and parts > 1:
        advice = f"`fedkin cut {outcome.folder} --clusters {parts}` makes {parts}"
    else:
        more = "give another number of clusters, or " if method.traits.takes_k else ""
        advice = f"{more}try other methods, as `fedkin compare` does"
    return [f"All {method.traits.clusters} are in one cluster; {advice}."]


def cluster_lines(profile: ClusterProfile | None, clients: Sequence[str]) -> list[str]:
    """Return sentences on the first clusters of a run's samples, and what a reader should know; none without any."""
    if profile is None:
        return []
    columns = described(profile)
    texts = list(zip(sentences(profile, clients, columns), (profile.samples > 0).tolist(), strict=True))
    described_ones, unknown = [text for text, has in texts if has], [text for text, has in texts if not has]
    if len(unknown) > 1:
        unknown = [f"{pluralize(len(unknown), 'cluster')}: too few samples at any one client to be described."]
    more = len(described_ones) - 12
    rest = [f"... and {pluralize(more, 'more cluster')}, in the report."] if more > 0 else []
    return [*described_ones[:12], *rest, *unknown, *remarks(profile, clients, columns)]


def _rows(outcome: RunOutcome) -> list[tuple[str, str]]:
    if not outcome.records:
        return [("Steps", "0")]
    last, evaluation = outcome.records[-1], outcome.config.evaluation
    unit = "step" if phases(outcome.records) else "round"
    times = moments(outcome.records, unit, evaluation.target, evaluation.reach)
    rows = [*_headlines(last), *((title, f"{when}, {why}") for title, when, why in times)]
    if (privacy := privacy_of_samples(outcome.records)) is not None:
        rows.append(("Privacy of a sample", privacy))
    if last["missing"]:
        names = [client_name(int(client), outcome.clients) for client in last["missing"]]
        rows.append(("Missing in the last step", f"{'client' if len(names) == 1 else 'clients'} {', '.join(names)}"))
    rows += [
        ("Sent to the clients", format_bytes(last["sent"])),
        ("Received from them", format_bytes(last["received"])),
    ]
    rows.append(("Steps", ", ".join(filter(None, (str(last["step"]), phased(outcome.records))))))
    seconds = _seconds(outcome)
    return rows if seconds is None else [*rows, ("Training time", f"{seconds:.1f} s")]


def _headlines(line: RecordLine) -> list[tuple[str, str]]:
    shown = measures(line)
    names = [n for name, measure in shown.items() if measure.headline for n in (name, measure.beside) if n in shown]
    return [(shown[name].title, written(line, name, shown[name])) for name in names]


def _seconds(outcome: RunOutcome) -> float | None:
    """Return the seconds of all steps, without the preparation (step 0); ``None`` if unknown."""
    seconds = [line["seconds"] for line in read_timing(outcome.folder) if line["step"] > 0 and "seconds" in line]
    return sum(seconds) if seconds else None


def members(labels: Sequence[int], names: Sequence[str]) -> list[str]:
    """Return a line for each cluster with its clients, if there are several; the first few clusters and clients.

    `labels` are the clusters of the clients, -1 for none, and `names` the clients'; both in order of id.
    """
    clusters = sorted({label for label in labels if label >= 0})
    if len(clusters) < 2:
        return []
    lines, shown = [], short_names(names) or [str(client) for client in range(len(labels))]
    for cluster in clusters[:6]:
        inside = [name for name, label in zip(shown, labels, strict=False) if label == cluster]
        lines.append(f"Cluster {cluster} has {pluralize(len(inside), 'client')}: {listing(inside, 10)}")
    more = len(clusters) - 6
    return [*lines, *([f"... and {pluralize(more, 'more cluster')}, in {CLIENTS}"] if more > 0 else [])]


def fewer_clusters(found: int, asked: object, members: Literal["clients", "samples"]) -> list[str]:
    """Return a sentence if fewer clusters, `found`, have `members` than the number that was given, if one was."""
    if not isinstance(asked, int | np.integer) or not 0 < found < asked:
        return []
    have = "1 has" if found == 1 else f"{found:,} have"
    hint = "; another seed may end in more" if members == "clients" else ""
    return [f"{pluralize(int(asked), 'cluster')} were asked for, and {have} {members}{hint}."]


def notes_on_clusters(line: RecordLine, guess: float | None, notes: Iterable[str], asked: object = None) -> list[str]:
    """Return sentences that a reader of the last record `line` of clusters of clients should not miss.

    `guess` is the accuracy of always guessing a client's most frequent class, where it is known, `notes` those on the
    clients' data, and `asked` the number of clusters that was given, if one was.
    """
    clusters = len({label for label in line["values"].get("labels", []) if label >= 0})
    accuracy = number(line, "personal_accuracy")
    texts = fewer_clusters(clusters, asked, "clients")
    if accuracy is not None and guess is not None and accuracy <= guess + AS_GUESSED:
        than = "worse" if accuracy < guess - AS_GUESSED else "no better"
        texts.append(
            f"An accuracy of {accuracy:.3f} is {than} than the {guess:.3f} of always guessing each client's most "
            "frequent class."
        )
    return texts + [note for note in notes if clusters > 1 and isinstance(note, Finding) and note.check == "labels"]
