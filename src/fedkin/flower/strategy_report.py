"""Report page of a strategy's run, built from its result."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from flwr.app import MetricRecord

from fedkin.core.progress import RecordLine
from fedkin.experiment.report_content import view_of_rounds
from fedkin.flower.node_assignment import Name
from fedkin.report import Curve, RunView

_OWN = ("round", "answered", "missing", "sent", "received")


class Reported(Protocol):
    """Interface of a `ClusterResult` that the page needs; see its attributes."""

    method: str
    nodes: list[Name]
    records: list[dict[str, Any]]
    evaluate_metrics_clientapp: dict[int, MetricRecord]
    evaluate_metrics_by_cluster: dict[int, dict[int, MetricRecord]]
    evaluate_metrics_by_node: dict[int, dict[Name, MetricRecord]]


def view_of_result(result: Reported, accuracy_key: str) -> RunView:
    """Build the content of the page; `accuracy_key` names the accuracy among the nodes' evaluation metrics."""
    records = [_line(result, step, accuracy_key) for step in range(1, len(result.records) + 1)]
    for record in records:  # nodes that came later were in no cluster yet
        labels = record["values"]["labels"]
        labels += [-1] * (len(result.nodes) - len(labels))
    view = view_of_rounds(f"{result.method} on Flower", records, [f"node {name}" for name in result.nodes])
    return dataclasses.replace(view, curves=[*_evaluated(result), *view.curves])


def _line(result: Reported, step: int, accuracy_key: str) -> RecordLine:
    """Convert a record of the result to the form of a run's records."""
    entry = result.records[step - 1]
    by_node = result.evaluate_metrics_by_node.get(entry["round"], {}) if entry["round"] else {}
    found = {node: metrics[accuracy_key] for node, metrics in by_node.items() if accuracy_key in metrics}
    sound = {node: value for node, value in found.items() if isinstance(value, int | float) and 0 <= value <= 1}
    values = {name: value for name, value in entry.items() if name not in _OWN}
    line: RecordLine = {
        "step": step,
        "answered": entry["answered"],
        "missing": {str(client): reason for client, reason in entry["missing"].items()},
        "values": {**values, "labels": list(values["labels"])},
        "metrics": {"client_accuracy": [sound.get(node) for node in result.nodes]} if sound else {},
        "sent": entry["sent"],
        "received": entry["received"],
    }
    return line


def _evaluated(result: Reported) -> Iterator[Curve]:
    """Yield a chart for each evaluation metric: the mean over all nodes, and over those of each cluster."""
    steps = {entry["round"]: at for at, entry in enumerate(result.records, 1) if entry["round"]}
    rounds = [number for number in sorted(steps) if number in result.evaluate_metrics_clientapp]
    if len(rounds) < 2:
        return
    metrics, parts = result.evaluate_metrics_clientapp, result.evaluate_metrics_by_cluster
    clusters = sorted({cluster for number in rounds for cluster in parts.get(number, {})})
    for name in sorted({name for number in rounds for name in metrics[number]}):
        series = {"all nodes": _values(name, (metrics[number] for number in rounds))}
        if len(clusters) > 1:
            series |= {f"cluster {k}": _values(name, (parts.get(n, {}).get(k, {}) for n in rounds)) for k in clusters}
        caption = "Mean over the nodes, each with its own cluster's model, as the client app reports it."
        if any(value is not None for value in series["all nodes"]):
            yield Curve(name, caption, [steps[number] for number in rounds], series, x_label="round")


def _values(name: str, metrics: Iterable[MetricRecord | Mapping[str, object]]) -> Sequence[float | None]:
    found = (one.get(name) for one in metrics)
    return [float(value) if isinstance(value, int | float) else None for value in found]
