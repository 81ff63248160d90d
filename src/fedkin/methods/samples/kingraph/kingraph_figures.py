"""What a run's page shows of kin-graph: how clusters were found, and coarser and finer ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.report.figures import ResultTable, TableCell, Text
from fedkin.report.numbers import pluralize, shown

_FOUND_IN = {
    "graph": "",
    "density": ": the gaps between micro-clusters show them (HDBSCAN)",
    "modes": ": samples differ in one direction alone, and clusters are the modes of their density",
    "k-means": ": samples differ in one direction alone, and its density does not show as many (k-means)",
    "nothing": ": no division is found again both without some of the micro-clusters and by another tree of them",
}


def kingraph_figures(records: Sequence[Mapping[str, Any]]) -> list[Text | ResultTable]:
    """Describe the cut in a sentence and, of several scales, by a table of them."""
    figures: list[Text | ResultTable] = []
    for record in records:
        values = record["values"]
        if not (scales := values.get("scales")):
            continue
        nodes, clients = pluralize(values["nodes"], "micro-cluster"), pluralize(len(record["answered"]), "client")
        gave = f"{pluralize(values['clusters'], 'cluster')}{_FOUND_IN[values['found_in']]}"
        figures.append(Text([f"In step {record['step']}, {nodes} from {clients} gave {gave}."]))
        if len(scales) > 1:
            caption = (
                "Each row is one division of all samples, the coarsest first; fedkin cut gives its clusters. "
                "Stability: how alike clusters are if some micro-clusters are left out, 1 is the same (ARI)."
            )
            rows = []
            for scale in scales:
                name = f"{len(scale['samples'])}{' (found)' if scale['chosen'] else ''}"
                sizes = ", ".join(f"{size:,}" for size in sorted(scale["samples"], reverse=True))
                rows.append((name, [TableCell(shown(scale["stability"], "share")), TableCell(sizes)]))
            heads = ["stability", "samples of each"]
            figures.append(ResultTable("Coarser and finer clusters", caption, "clusters", heads, rows))
    return figures
