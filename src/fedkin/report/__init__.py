"""Self-contained HTML pages: `RunView` and `PageView` say what to show, `write_report` and `write_page` draw it."""

from fedkin.report.results_view import CellVerdict, PagePart, PageView, ResultTable, TableCell
from fedkin.report.run_view import (
    Band,
    Bars,
    ClientClusters,
    ClientEvent,
    ClusterPictures,
    ClusterTable,
    Curve,
    GraphNode,
    GraphView,
    Mark,
    Profiles,
    RunView,
    SampleMap,
    Timeline,
)
from fedkin.report.write import write_page, write_report

__all__ = [
    "Band",
    "Bars",
    "TableCell",
    "ClientEvent",
    "ClientClusters",
    "Curve",
    "GraphView",
    "ClusterPictures",
    "ClusterTable",
    "Mark",
    "GraphNode",
    "PageView",
    "PagePart",
    "Profiles",
    "ResultTable",
    "RunView",
    "SampleMap",
    "Timeline",
    "CellVerdict",
    "write_page",
    "write_report",
]
