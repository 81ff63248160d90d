"""Self-contained HTML pages: `RunView` and `PageView` say what to show, `write_report` and `write_page` draw it."""

from fedkin.report.results_view import CellVerdict, PagePart, PageView, ResultTable, TableCell
from fedkin.report.run_view import (
    Bars,
    ClientClusters,
    ClientEvent,
    ClusterPictures,
    ClusterTable,
    GraphNode,
    GraphView,
    Profiles,
    RunView,
    SampleMap,
)
from fedkin.report.scale_trees import Scale, ScaleTree
from fedkin.report.timeline import Band, Curve, Mark, Timeline
from fedkin.report.write import write_page, write_report

__all__ = [
    "Band",
    "Bars",
    "CellVerdict",
    "ClientClusters",
    "ClientEvent",
    "ClusterPictures",
    "ClusterTable",
    "Curve",
    "GraphNode",
    "GraphView",
    "Mark",
    "PagePart",
    "PageView",
    "Profiles",
    "ResultTable",
    "RunView",
    "SampleMap",
    "Scale",
    "ScaleTree",
    "TableCell",
    "Timeline",
    "write_page",
    "write_report",
]
