"""One self-contained HTML page per run: `RunView` says what to show, `write_report` draws it."""

from fedkin.report.view import ClientGroups, Curve, Graph, GroupPictures, GroupTable, Node, Profiles, RunView
from fedkin.report.write import write_report

__all__ = [
    "ClientGroups",
    "Curve",
    "Graph",
    "GroupPictures",
    "GroupTable",
    "Node",
    "Profiles",
    "RunView",
    "write_report",
]
