"""Self-contained HTML pages: `RunView` and `PageView` say what to show, `write_report` and `write_page` draw it."""

from fedkin.report.page_view import Cell, PageView, Part, ResultTable, Verdict
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
from fedkin.report.write import write_page, write_report

__all__ = [
    "Band",
    "Bars",
    "Cell",
    "Change",
    "ClientGroups",
    "Curve",
    "Graph",
    "GroupPictures",
    "GroupTable",
    "Mark",
    "Node",
    "PageView",
    "Part",
    "Profiles",
    "ResultTable",
    "RunView",
    "SampleMap",
    "Timeline",
    "Verdict",
    "write_page",
    "write_report",
]
