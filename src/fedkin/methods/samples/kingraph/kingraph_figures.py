"""What a run's page shows of kin-graph: how clusters were found, how stable they are, and coarser and finer ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.report.figures import Bars, Scale, ScaleTree, Text
from fedkin.report.numbers import pluralize


def kingraph_figures(records: Sequence[Mapping[str, Any]]) -> list[Text | Bars | ScaleTree]:
    """Describe the cut in a sentence, by bars of the resolutions tried and, of several scales, by their tree."""
    figures: list[Text | Bars | ScaleTree] = []
    for record in records:
        if "stabilities" in record["values"]:
            figures += [Text([_cut(record)]), _stability(record["values"])]
        if len(scales := record["values"].get("scales", [])) > 1:
            drawn = [Scale(one["samples"], one["parents"], one["stability"], one["chosen"]) for one in scales]
            caption = (
                "Each row is one division of all samples, the coarsest first, and each block a cluster, as wide as it "
                "has samples, below the cluster that most of it is part of. Coloured rows are the clusters found and "
                "what they divide into. fedkin cut gives those of another row."
            )
            figures.append(ScaleTree("Coarser and finer clusters", caption, drawn))
        if len(again := record["values"].get("again", [])) > 1:
            caption = (
                "How much of each cluster is found again without some of the micro-clusters: its overlap (Jaccard) "
                "with the most alike cluster, 1 is the same. Do not build on one that is hardly found again."
            )
            names = [str(cluster) for cluster in range(len(again))]
            figures.append(Bars("Clusters found again", caption, names, again, [True] * len(again), "cluster"))
    return figures


_FOUND_IN = {
    "density": "the gaps between micro-clusters show these clusters (HDBSCAN)",
    "modes": "samples differ in one direction alone, so clusters are the modes of their density",
    "k-means": "samples differ in one direction alone, and its density does not show as many clusters (k-means)",
    "nothing": "no division is found again by resamples and by another view of the micro-clusters, so all are one",
}
"""How clusters were found if not in the graph."""


def _cut(record: Mapping[str, Any]) -> str:
    """Describe the number of micro-clusters, and the number of clusters found in them."""
    values = record["values"]
    nodes, clusters = pluralize(values["nodes"], "micro-cluster"), pluralize(values["clusters"], "cluster")
    source = nodes if values.get("found_in") in _FOUND_IN else f"a graph of {nodes}"
    clients = pluralize(len(record["answered"]), "client")
    return f"In step {record['step']}, {source} from {clients} gave {clusters}."


def _stability(values: Mapping[str, Any]) -> Bars:
    chosen = values["resolutions"].index(values["resolution"])
    why = _FOUND_IN.get(values.get("found_in", "graph"))
    names = [str(count) for count in values["clusters_found"]]
    if values.get("found_in") in ("modes", "k-means"):
        caption = (
            "How sure it is that the shallowest valley between so many modes is more than chance: 0.5 is a guess, 1 is "
            f"sure. A single mode has no valley. In this run {why}."
        )
        strong = [at == chosen for at in range(len(names))]
        return Bars("Modes", caption, names, values["stabilities"], strong, "clusters")
    caption = (
        "How alike clusters are if some micro-clusters are left out, from coarse to fine: 1 is equal (ARI). "
        f"{'' if why else 'The coloured one was chosen. '}Before each bar: the number of clusters."
    )
    tried, clusters = values["clusters_found"][chosen], values["clusters"]
    if why:
        caption += f" None was chosen: {why}."
    elif tried > clusters:
        caption += f" Of its {tried} clusters, those with the most edges between were then merged, leaving {clusters}."
    strong = [at == chosen and not why for at in range(len(names))]
    return Bars("Stability", caption, names, values["stabilities"], strong, "clusters, by resolution")
