"""Titles, units and explanations of a run's numbers, for its page and the terminal, and what else records say.

`MEASURES` lists the numbers that are shown otherwise than under their own name, in order of importance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from fedkin.core.runner import RecordLine
from fedkin.report.figures import Unit
from fedkin.report.numbers import join_words, shown

TRAINING = "training"


@dataclass(frozen=True)
class Measure:
    """Title, unit and explanation of a number in the records.

    Its `meaning` is a phrase without a full stop. With the `unit` "percent" the number itself is a fraction. The number
    called `beside` is in the same chart and the same card. With `headline` it has a card at the top of the page and a
    line on the terminal.
    """

    title: str
    meaning: str
    unit: Unit = "number"
    beside: str = ""
    headline: bool = True
    chart: bool = True

    @property
    def in_sentence(self) -> str:
        """Title for use within a sentence: in lower case, except for acronyms and names."""
        keeps_case = self.title[:2].isupper() or self.title.startswith("Cohen")
        return self.title if keeps_case else self.title[:1].lower() + self.title[1:]


_charted = partial(Measure, headline=False)
_beside = partial(Measure, headline=False, chart=False)

MEASURES = {
    "personal_accuracy": Measure(
        "Accuracy on each client's own test set", "of its cluster's model, mean over clients", "share"
    ),
    "global_accuracy": Measure(
        "Accuracy on the shared test set",
        "of each client's cluster's model, mean over clients; a model is made for its cluster's clients, not for all",
        "share",
    ),
    "ari": Measure(
        "ARI", "how far the clusters found are the true ones: 1 is equal, 0 is chance (adjusted Rand index)", "share"
    ),
    "purity": _charted(
        "Purity", "fraction of clients that belong to the most frequent true cluster of theirs", "share"
    ),
    "clusters": Measure("Clusters found", "over all clients together", "count", beside="target", chart=False),
    "loss": _charted("Training loss", "mean over the clients that took part"),
    "personal_f1": _charted(
        "Macro-F1 on each client's own test set", "mean over clients, beside that on the shared test set", "share",
        beside="global_f1",
    ),
    "global_f1": _beside("Macro-F1 on the shared test set", "mean over clients", "share"),
    "learning_gap": _charted(
        "Learning gap", "absolute difference of macro-F1 on clients' own test sets and on the shared one", "share"
    ),
    "homogeneity": _charted(
        "Homogeneity", "how far each cluster found holds one true cluster only", "share", beside="completeness"
    ),
    "completeness": _beside("Completeness", "how far each true cluster lies in one cluster only", "share"),
    "ami": _charted(
        "AMI", "adjusted mutual information of the clusters found and the true ones: 1 is equal, 0 is chance", "share"
    ),
    "accuracy": Measure(
        "Local accuracy", "each client's local clusters matched to classes (Hungarian), mean over clients", "share"
    ),
    "pooled_accuracy": _beside("Pooled accuracy", "local clusters of all clients matched to classes at once", "share"),
    "false_matches": Measure(
        "False matches", "fraction of the associations that join local clusters of different classes", "percent"
    ),
    "silhouette": Measure(
        "Silhouette", "how much nearer groups of like samples are to their own cluster than to the next: 1 is clear",
        "share",
    ),
    "nmi": Measure(
        "NMI", "normalised mutual information of the clusters found and the true ones: 1 is equal", "share",
        beside="kappa",
    ),
    "kappa": _beside("Cohen's kappa", "accuracy above chance, clusters and classes matched one to one", "share"),
    "target": _beside("True classes", "classes that two or more clients have", "count"),
}  # fmt: skip


def measures(*lines: RecordLine) -> dict[str, Measure]:
    """Return the `Measure` of every scalar in the records, the known ones first.

    Other numbers that a method reports have a curve under their own name, and other metrics a headline, too.
    """
    named = {name: line for line in lines for name in (*line["metrics"], *line["values"])}
    named.pop("fired", None)  # a moment, not a measure; see `clustering_step`
    single = [name for name in named if any(number(line, name) is not None for line in lines)]
    listed = {name: measure for name, measure in MEASURES.items() if name in single}
    return listed | {name: _unknown(name, lines) for name in single if name not in listed}


def _unknown(name: str, lines: Sequence[RecordLine]) -> Measure:
    is_metric = any(name in line["metrics"] for line in lines)
    is_whole = all(isinstance(number(line, name), int | None) for line in lines)
    meaning = "compared with the ground truth" if is_metric else "as the method reports it"
    return Measure(
        name.replace("_", " ").capitalize(), meaning, "count" if is_whole else "number", headline=is_metric
    )  # fmt: skip


def number(line: RecordLine, name: str) -> float | None:
    """Return the scalar of this name in a record; a metric takes precedence over a value that the method reports."""
    value = line["metrics"].get(name, line["values"].get(name))
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def last_number(records: Sequence[RecordLine], name: str) -> float | None:
    """Return the last value of a number in the records; ``None`` if no record has it."""
    values = [number(record, name) for record in records]
    return next((value for value in reversed(values) if value is not None), None)


def scaled(line: RecordLine, name: str, measure: Measure) -> float | None:
    """Return a record's number in its `Measure.unit`; fractions as percent."""
    value = number(line, name)
    return value if value is None or measure.unit != "percent" else 100 * value


def written(line: RecordLine, name: str, measure: Measure) -> str:
    """Format a record's number with its unit; a dash where it is missing."""
    return shown(scaled(line, name, measure), measure.unit)


def headlines(line: RecordLine) -> list[tuple[str, str]]:
    """Return titles and values of the measures of a record that a reader looks at first."""
    named = measures(line)
    names = [n for name, measure in named.items() if measure.headline for n in (name, measure.beside) if n in named]
    return [(named[name].title, written(line, name, named[name])) for name in names]


def phase_of(record: RecordLine) -> str:
    """Return the phase of a record: its value ``phase``, by default training."""
    return str(record["values"].get("phase", TRAINING))


def phases(records: Iterable[RecordLine]) -> dict[str, int]:
    """Count the steps of each phase, in order of first appearance; empty if records name no phases."""
    return dict(Counter(phase_of(record) for record in records if "phase" in record["values"]))


def phased(records: Sequence[RecordLine]) -> str:
    """Describe phases, such as ``"3 of pre-training, 1 of embedding and 30 of training"``; empty without phases."""
    return join_words([f"{count:,} of {phase}" for phase, count in phases(records).items()])


def method_remarks(records: Iterable[RecordLine]) -> list[str]:
    """Return the method's notes and warnings, each once."""
    remarks = [record["values"].get(kind) for record in records for kind in ("note", "warning")]
    return list(dict.fromkeys(str(text) for text in remarks if text is not None))


def privacy_of_samples(records: Iterable[RecordLine]) -> str | None:
    """Return the differential privacy of one sample, and what its noise follows from; ``None`` without noise."""
    for record in records:
        values = record["values"]
        if (source := values.get("noise_source")) is not None:
            hides = " (simulated: it hides nothing from who knows the seed)" if source == "the run's seed" else ""
            return f"epsilon {values['epsilon']:g}, delta {values['delta']:g}; noise follows from {source}{hides}"
    return None


def clustering_step(records: Sequence[RecordLine]) -> int | None:
    """Return the step at which a method's trigger fired and clusters were formed, or ``None``.

    It is that of the first record whose value ``fired`` is true, or ``fired`` itself where that is a number.
    """
    for record in records:
        fired = record["values"].get("fired")
        if fired is not None and fired is not False:
            return int(record["step"] if fired is True else fired)
    return None
