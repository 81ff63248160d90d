"""What a run's page shows of kin-graph: how clusters were found, and coarser and finer ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.report.figures import Scale, ScaleTree, Text
from fedkin.report.numbers import pluralize

_FOUND_IN = {
    "graph": "",
    "density": ": the gaps between micro-clusters show them (HDBSCAN)",
    "modes": ": samples differ in one direction alone, and clusters are the modes of their density",
    "k-means": ": samples differ in one direction alone, and its density does not show as many (k-means)",
    "nothing": ": no division is found again both without some of the micro-clusters and by another tree of them",
}


def kingraph_figures(records: Sequence[Mapping[str, Any]]) -> list[Text | ScaleTree]:
    """Describe the cut in a sentence and, of several scales, by their tree."""
    figures: list[Text | ScaleTree] = []
    for record in records:
        values = record["values"]
        if not (scales := values.get("scales")):
            continue
        nodes, clients = pluralize(values["nodes"], "micro-cluster"), pluralize(len(record["answered"]), "client")
        gave = f"{pluralize(values['clusters'], 'cluster')}{_FOUND_IN[values['found_in']]}"
        figures.append(Text([f"In step {record['step']}, {nodes} from {clients} gave {gave}."]))
        if len(scales) > 1:
            drawn = [Scale(scale["samples"], scale["parents"], scale["stability"], scale["chosen"]) for scale in scales]
            caption = (
                "Each row is one division of all samples, the coarsest first, and each block a cluster, as wide as it "
                "has samples, below the cluster that most of it is part of. Coloured rows are the clusters found and "
                "what they divide into; fedkin cut gives those of another row. Stability: how alike clusters are if "
                "some micro-clusters are left out, 1 is the same (ARI)."
            )
            figures.append(ScaleTree("Coarser and finer clusters", caption, drawn))
    return figures
