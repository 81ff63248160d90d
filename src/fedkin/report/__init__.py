"""One self-contained HTML page per run: `RunView` says what to show, `write_report` draws it."""

from fedkin.report.view import (
    Band,
    Bars,
    Change,
    ClientGroups,
    Curve,
    Graph,
    GroupPictures,
    GroupTable,
    Mark,
    Node,
    Profiles,
    RunView,
    SampleMap,
    Timeline,
)
from fedkin.report.write import write_report

__all__ = [
    "Band",
    "Bars",
    "Change",
    "ClientGroups",
    "Curve",
    "Graph",
    "GroupPictures",
    "GroupTable",
    "Mark",
    "Node",
    "Profiles",
    "RunView",
    "SampleMap",
    "Timeline",
    "write_report",
]
