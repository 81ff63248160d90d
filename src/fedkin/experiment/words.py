"""How the numbers of a run are told to people: on the report's page and on the terminal.

Methods and their evaluation name numbers as programs do. What is known here gets a title, a unit and an explanation,
in order of importance; anything else is shown under its own name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedkin.report.numbers import shown
from fedkin.report.run_view import Unit

RecordLine = Mapping[str, Any]

TRAINING = "training"


@dataclass(frozen=True)
class Measure:
    """Words for one number.

    Attributes
    ----------
    title, meaning : str
        What it is called, and what it says as a phrase without a full stop.
    unit : Unit
        How it is written; with "percent" the number itself is a share.
    total : str
        Name of the number it is a part of, such as the unmatched clusters of all.
    beside : str
        Name of a number that is drawn in the same chart, and told in the same breath.
    headline, chart : bool
        Whether it is worth a card at the top of the page and a line on the terminal; worth a chart.
    """

    title: str
    meaning: str
    unit: Unit = "number"
    total: str = ""
    beside: str = ""
    headline: bool = True
    chart: bool = True


MEASURES = {
    "personal_accuracy": Measure(
        "Personal accuracy", "mean over clients of their cluster's model on their own test samples", "share"
    ),
    "global_accuracy": Measure(
        "Global accuracy", "mean over clients of their cluster's model on the test samples common to all", "share"
    ),
    "ari": Measure(
        "Agreement (ARI)", "of the clusters found with the hidden truth: 1 is the same, 0 is chance", "share"
    ),
    "drifted_right": Measure(
        "Drifted clients in their cluster", "share of them in the cluster of those that now see as they do", "percent"
    ),
    "newcomers_right": Measure(
        "Newcomers in their cluster", "share of them in the cluster of those that see as they do", "percent"
    ),
    "drifted_accuracy": Measure(
        "Accuracy of drifted clients", "personal accuracy, mean over the clients that drift, before and after", "share",
        beside="personal_accuracy", headline=False,
    ),
    "newcomers_accuracy": Measure(
        "Accuracy of newcomers", "personal accuracy, mean over the clients that joined late", "share",
        beside="personal_accuracy", headline=False,
    ),
    "purity": Measure(
        "Purity", "share of clients that belong to the most frequent hidden cluster of theirs", "share", headline=False
    ),
    "clusters": Measure("Clusters found", "over all clients together", "count", beside="target", chart=False),
    "communities": Measure(
        "Communities", "sets of kin local clusters of different clients", "count", beside="target", headline=False
    ),
    "temperature": Measure(
        "Temperature", "how far the clients' updates point apart; clients are clustered once it rises", headline=False
    ),
    "splits": Measure("Splits", "times that a cluster was divided", "count", headline=False, chart=False),
    "loss": Measure("Training loss", "mean over the clients that took part", headline=False),
    "reconstruction": Measure(
        "Reconstruction error", "mean squared, of the clients' autoencoder in pre-training", headline=False
    ),
    "personal_f1": Measure(
        "Personal F1", "macro average, mean over clients, on their own test samples and on the common ones", "share",
        beside="global_f1", headline=False,
    ),
    "global_f1": Measure(
        "Global F1", "mean over clients, on the test samples common to all", "share", headline=False, chart=False
    ),
    "learning_gap": Measure(
        "Learning gap", "distance between the F1 on clients' own test samples and on the common ones", "share",
        headline=False,
    ),
    "homogeneity": Measure(
        "Homogeneity", "how far each cluster found holds one hidden cluster only, and each hidden cluster lies in one",
        "share", beside="completeness", headline=False,
    ),
    "completeness": Measure(
        "Completeness", "how far each hidden cluster lies in one cluster only", "share", headline=False, chart=False
    ),
    "ami": Measure(
        "Agreement (AMI)", "mutual information of the clusters found and the hidden ones, above chance", "share",
        headline=False,
    ),
    "unmatched": Measure("Left alone", "local clusters that found no kin at any other client", "count", total="local_clusters"),
    "accuracy": Measure(
        "Accuracy (ACC)", "share of samples in a local cluster of their own class, mean over clients", "share"
    ),
    "false_matches": Measure(
        "Wrongly joined", "share of the associations that join local clusters of different classes", "percent"
    ),
    "synthetic_samples": Measure(
        "Synthetic samples", "made by the clients' generative networks, and sent to the server", "count", chart=False
    ),
    "generator_loss": Measure(
        "Generator's loss", "mean over clients, with that of the discriminator", beside="discriminator_loss",
        headline=False,
    ),
    "discriminator_loss": Measure("Discriminator's loss", "mean over clients", headline=False, chart=False),
    "components": Measure(
        "Components", "principal components of the features that samples are compared by", "count", headline=False,
        chart=False,
    ),
    "start": Measure(
        "First client", "whose local centroids the server began with", "count", headline=False, chart=False
    ),
    "largest_client_share": Measure(
        "Held by one client", "of a sample's cluster, by the client that has most of it; near 100 % clusters follow clients",
        "percent", chart=False,
    ),
    "nodes": Measure("Nodes", "small clusters in the server's graph", "count", headline=False, chart=False),
    "edges": Measure("Links", "between nodes of the graph", "count", headline=False, chart=False),
    "micro_clusters": Measure("Small clusters", "sent by all clients together", "count", headline=False, chart=False),
    "resolution": Measure(
        "Resolution", "share of chance's links below which clusters stay apart", headline=False, chart=False
    ),
    "stability": Measure(
        "Stability", "agreement of the clusters with those found without some of the nodes, 1 for the same", "share",
        headline=False, chart=False,
    ),
    "modularity": Measure(
        "Modularity", "share of the graph's links within clusters, above chance", "share", headline=False, chart=False
    ),
    "explained": Measure(
        "Variance kept", "by the principal components, of that of the features", "percent", headline=False,
        chart=False,
    ),
    "active": Measure(
        "Active clients", "clients that still refined their clusters; the others rest", "count", headline=False
    ),
    "agreement": Measure(
        "Unmoved samples", "samples of the active clients that kept their local cluster", "percent", headline=False
    ),
    "nmi": Measure(
        "Agreement (NMI)", "mutual information of the clusters found and the hidden truth, 1 for the same", "share",
        beside="kappa",
    ),
    "kappa": Measure(
        "Agreement (kappa)", "of each sample's class with the class its cluster stands for, above chance", "share",
        headline=False, chart=False,
    ),
    "pooled_accuracy": Measure(
        "Accuracy over all clients", "share of samples whose cluster stands for their class", "share",
        headline=False, chart=False,
    ),
    "target": Measure("True classes", "classes that two or more clients hold", "count", headline=False, chart=False),
    "local_clusters": Measure("Local clusters", "of all clients together", "count", headline=False, chart=False),
    "associations": Measure("Associations", "pairs of kin local clusters", "count", headline=False, chart=False),
    "cut": Measure("Cut", "largest average share of losses within a cluster", headline=False, chart=False),
}  # fmt: skip


def measures(*lines: RecordLine) -> dict[str, Measure]:
    """Words for every single number in any of these records, the known ones first."""
    named = {name: line for line in lines for name in (*line["metrics"], *line["values"])}
    named.pop("fired", None)  # a moment, not a measure; `formed` tells it
    single = [name for name in named if any(number(line, name) is not None for line in lines)]
    known = {name: measure for name, measure in MEASURES.items() if name in single}
    return known | {name: _unknown(name, lines) for name in single if name not in known}


def number(line: RecordLine, name: str) -> float | None:
    """The single number of this name in a record; a metric wins over a value that the method reports."""
    value = line["metrics"].get(name, line["values"].get(name))
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def scaled(line: RecordLine, name: str, measure: Measure) -> float | None:
    """A record's number as `Measure.unit` speaks of it."""
    value = number(line, name)
    return value if value is None or measure.unit != "percent" else 100 * value


def written(line: RecordLine, name: str, measure: Measure) -> str:
    """A record's number with its unit and, where it is a part, the whole; a dash where there is none."""
    text, whole = shown(scaled(line, name, measure), measure.unit), number(line, measure.total)
    return text if whole is None else f"{text} of {shown(whole, measure.unit)}"


def reached(records: Sequence[RecordLine], metric: str, reach: float) -> tuple[int, int] | None:
    """The first step at which a number was at least `reach`, and the bytes sent and received until its end.

    ``None`` if that never happened.
    """
    for record in records:
        value = number(record, metric)
        if value is not None and value >= reach:
            return record["step"], record["sent"] + record["received"]
    return None


def phase_of(record: RecordLine) -> str:
    """The phase that a record belongs to: what its value ``phase`` says, or training where it says nothing."""
    return str(record["values"].get("phase", TRAINING))


def training_rounds(records: Iterable[RecordLine], step: int) -> int:
    """Steps of training in `records` until step `step`, itself included; what comes before training does not count."""
    return sum(record["step"] <= step and phase_of(record) == TRAINING for record in records)


def phases(records: Iterable[RecordLine]) -> dict[str, int]:
    """Steps of each phase, in order of first appearance; empty where records tell of none."""
    told = [record for record in records if "phase" in record["values"]]
    return dict(Counter(map(phase_of, told)))


def phased(records: Sequence[RecordLine]) -> str:
    """How the steps divide into phases, such as ``"3 of pre-training, 1 of embedding and 30 of training"``.

    Empty where records tell of no phases.
    """
    return listed([f"{count:,} of {phase}" for phase, count in phases(records).items()])


def warnings_of(records: Iterable[RecordLine]) -> list[str]:
    """What the method warns of, each once."""
    return list(dict.fromkeys(str(record["values"]["warning"]) for record in records if "warning" in record["values"]))


def formed(records: Sequence[RecordLine]) -> int | None:
    """The step at which a method's trigger fired and clusters were formed, by the value ``fired``.

    That is the first record in which it is true, or the number of the step where it is a number itself.
    """
    for record in records:
        fired = record["values"].get("fired")
        if fired is not None and fired is not False:
            return int(record["step"] if fired is True else fired)
    return None


def size(count: float) -> str:
    """Bytes with three significant digits."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} PB"


def many(count: int, noun: str) -> str:
    """A count with its noun, as in "1 cluster" and "2 clusters"."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: "a", "a and b", "a, b and c"."""
    *others, last = names or [""]
    return f"{', '.join(others)} and {last}" if others else last


def _unknown(name: str, lines: Sequence[RecordLine]) -> Measure:
    is_metric = any(name in line["metrics"] for line in lines)
    is_whole = all(isinstance(number(line, name), int | None) for line in lines)
    meaning = "compared with the hidden truth" if is_metric else "as the method reports it"
    return Measure(name.replace("_", " ").capitalize(), meaning, "count" if is_whole else "number")
