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
    return figures


def _cut(record: Mapping[str, Any]) -> str:
    """Describe the number of micro-clusters, and the number of clusters found in them."""
    values = record["values"]
    nodes, clusters = pluralize(values["nodes"], "micro-cluster"), pluralize(values["clusters"], "cluster")
    found_in = nodes if _other_way(values) else f"a graph of {nodes}"
    clients = pluralize(len(record["answered"]), "client")
    return f"In step {record['step']}, {found_in} from {clients} gave {clusters}."


def _other_way(values: Mapping[str, Any]) -> str | None:
    """Return how clusters were found if not in the graph."""
    if values.get("by_density"):
        return "these clusters are pieces of longer ones, which the gaps between micro-clusters show (HDBSCAN)"
    if values.get("by_modes"):
        return "samples differ in one direction alone, so clusters are the modes of their density"
    if "by_modes" in values:
        return "samples differ in one direction alone, and its density does not show as many clusters (k-means)"
    if values.get("compact"):
        return "columns of few values put samples in few places, so clusters are compact ones (k-means)"
    if "agreement" in values:
        return "trees of the micro-clusters agree on no division, so all are one cluster"
    if "valley" in values:
        return "clusters touch, but the density has valleys between them (k-means)"
    if values.get("linkage") == "ward":
        return "micro-clusters, in all or in a cluster, are too few for a graph, so clusters are those of Ward's method"
    return None


def _stability(values: Mapping[str, Any]) -> Bars:
    chosen = values["resolutions"].index(values["resolution"])
    if "by_modes" in values:
        caption = (
            "How sure it is that the shallowest valley between so many modes is more than chance: 0.5 is a guess, 1 is "
            f"sure. A single mode has no valley. In this run {_other_way(values)}."
        )
        names = [str(count) for count in values["clusters_found"]]
        return Bars(
            "Modes", caption, names, values["stabilities"], [at == chosen for at in range(len(names))], "clusters"
        )
    other_way = _other_way(values)
    caption = (
        "ARI of the clusters found at each resolution, the coarsest first, with those found without some of the "
        f"micro-clusters: 1 is equal. {'' if other_way else 'The coloured one was chosen. '}Before each bar: the "
        "number of clusters."
    )
    found, left = values["clusters_found"][chosen], values["clusters"]
    if other_way:
        caption += f" None was chosen: {other_way}."
    elif found > left:
        caption += f" Of its {found} clusters, those with the most edges between were then merged, leaving {left}."
    names = [str(count) for count in values["clusters_found"]]
    strong = [at == chosen and not other_way for at in range(len(names))]
    return Bars("Stability", caption, names, values["stabilities"], strong, "clusters, by resolution")
