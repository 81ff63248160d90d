"""The group of each client over the steps as lanes of an inline SVG; below them the members of the last groups."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkin.report.markup import element, group_class, group_mark, listed, scrolling, sheet, short, text
from fedkin.report.numbers import nice_ticks, plain, shown
from fedkin.report.run_view import ALL_ALIKE, ClientGroups, Timeline

WIDTH = 400.0
TOP, BOTTOM = 18.0, 34.0
LETTER = 6.0
ROW, DENSE_ROW = 14.0, 10.0
FEW_CLIENTS = 40
MOST_CLIENTS = 120
MOST_COLUMNS = 80
LONGEST_NAME = 12
LONGEST_TIP = 8
GAP = 4.0


class _Run(NamedTuple):
    """Columns ``start`` to ``stop - 1``, in which a client is in one group."""

    start: int
    stop: int
    group: int


def client_groups(groups: ClientGroups, timeline: Timeline = ALL_ALIKE) -> str:
    """A card with the lanes, if there are few enough clients for them, and the table of the last groups.

    Of the timeline the marks are drawn; phases show by themselves, as lanes without a group.
    """
    if not groups.clients or not groups.steps:
        return element("p", "No groups yet.", class_="empty")
    caption = element("p", text(groups.caption)) if groups.caption else ""
    drawing = _chart(groups, timeline) if len(groups.clients) <= MOST_CLIENTS else ""
    return caption + element("figure", drawing, _table(groups), class_="card")


class _Frame:
    """Where clients and steps lie: clients by last group, then as they came; of many steps only some."""

    def __init__(self, groups: ClientGroups) -> None:
        last = groups.groups[:, -1].tolist()
        self.order = sorted(range(len(last)), key=lambda at: (last[at] < 0, last[at], at))
        every = math.ceil(len(groups.steps) / MOST_COLUMNS)
        self.columns = sorted(set(range(len(groups.steps) - 1, -1, -every)))
        self.names = [_short(name) for name in groups.clients]
        self.dense = len(last) > FEW_CLIENTS
        self.row = DENSE_ROW if self.dense else ROW
        self.left = 10 + LETTER * max(len("client"), *map(len, self.names))
        # Headings of the columns on the right: the last group and the hidden one.
        self.group_at = WIDTH - 22 if not groups.hidden else WIDTH - 28 - LETTER * self._widest(groups.hidden)
        self.right = self.group_at - 20
        self.tops: dict[int, float] = {}
        top, before = TOP, None
        gap = GAP if len(set(last)) <= len(last) / 3 else 0.0
        for at in self.order:
            top += gap if before is not None and last[at] != before else 0.0
            self.tops[at], before = top, last[at]
            top += self.row
        self.bottom = top

    @staticmethod
    def _widest(hidden: Sequence[str]) -> int:
        return max(len("hidden"), *(len(_short(name)) for name in hidden))

    def x(self, column: float) -> float:
        return self.left + (self.right - self.left) * column / len(self.columns)

    def middle(self, at: int) -> float:
        return self.tops[at] + self.row / 2 + 3

    def runs(self, groups: ClientGroups, at: int) -> list[_Run]:
        found, start = [], 0
        for group, run in groupby(groups.groups[at, self.columns].tolist()):
            stop = start + len(list(run))
            found.append(_Run(start, stop, group))
            start = stop
        return found


def _chart(groups: ClientGroups, timeline: Timeline) -> str:
    frame = _Frame(groups)
    runs = {at: frame.runs(groups, at) for at in frame.order}
    rows = [_row(groups, frame, runs[at], at) for at in frame.order]
    box = f"0 0 {WIDTH:g} {short(frame.bottom + BOTTOM)}"
    look = "lanes dense" if frame.dense else "lanes"
    content = (_heads(groups, frame), _lanes(frame, runs), _marks(groups, frame, timeline), *rows)
    svg = element("svg", *content, class_=look, viewBox=box, role="img", tabindex=0, aria_label=_in_words(groups))
    key = "A lane is a client, its colour and number the group it was in."
    if (groups.groups < 0).any():
        key += " Grey: in no group yet."
    if any(groups.steps[0] < mark.step <= groups.steps[-1] for mark in timeline.marks):
        key += " Vertical lines: see the table of changes."
    if len(frame.columns) < len(groups.steps):
        key += f" Shown are {len(frame.columns)} of {len(groups.steps)} {groups.x_label}s."
    return (scrolling(svg, "Group of each client", tall=True) if frame.dense else svg) + element("p", key, class_="key")


def _row(groups: ClientGroups, frame: _Frame, runs: Sequence[_Run], at: int) -> str:
    """Everything of one client but its lane: name, numbers, last group, hidden group, and what pointing shows."""
    y = frame.middle(at)
    parts = [element("text", text(frame.names[at]), x=frame.left - 6, y=y, class_="end")]
    for start, stop, group in runs:
        room = frame.x(stop) - frame.x(start)
        if group >= 0 and room >= LETTER * len(str(group)) + 4:
            parts.append(element("text", str(group), x=frame.x(start) + 4, y=y, class_="in"))
    last = "–" if runs[-1].group < 0 else str(runs[-1].group)
    parts.append(element("text", last, x=frame.group_at, y=y, class_="middle name"))
    if groups.hidden:
        parts.append(element("text", text(_short(groups.hidden[at])), x=WIDTH, y=y, class_="end"))
    tip = _tip(groups, at)
    area = element("rect", x=0, y=frame.tops[at], width=WIDTH, height=frame.row, class_="row", data_tip=tip)
    return "".join([*parts, area])


def _heads(groups: ClientGroups, frame: _Frame) -> str:
    """Headings of the columns, and the steps below."""
    heads = [("client", frame.left - 6, "end"), ("group", frame.group_at, "middle")]
    heads += [("hidden", WIDTH, "end")] if groups.hidden else []
    parts = [element("text", head, x=x, y=TOP - 7, class_=where) for head, x, where in heads]
    steps = [groups.steps[column] for column in frame.columns]
    ticks = nice_ticks(steps[0], steps[-1], count=7, whole=True) if len(steps) > 1 else [steps[0]]
    y = frame.bottom + 13
    for tick in ticks:
        if steps[0] <= tick <= steps[-1]:
            column = float(np.interp(tick, steps, range(len(steps))))
            parts.append(element("text", plain(tick), x=frame.x(column + 0.5), y=y, class_="middle"))
    middle = (frame.left + frame.right) / 2
    parts.append(element("text", text(groups.x_label), x=middle, y=y + 14, class_="middle"))
    return "".join(parts)


def _lanes(frame: _Frame, runs: dict[int, list[_Run]]) -> str:
    """One path per group, so that thousands of changes stay small."""
    paths: dict[int, list[str]] = {}
    height = frame.row - (2.0 if frame.dense else 3.0)
    for at, own in runs.items():
        for start, stop, group in own:
            x, y = frame.x(start) + 0.4, frame.tops[at] + (frame.row - height) / 2
            box = f"M{short(x)} {short(y)}h{short(frame.x(stop) - 0.4 - x)}v{short(height)}H{short(x)}z"
            paths.setdefault(group, []).append(box)
    return "".join(
        element("path", d="".join(paths[group]), class_=f"lane {group_class(None if group < 0 else group)}")
        for group in sorted(paths)
    )


def _marks(groups: ClientGroups, frame: _Frame, timeline: Timeline) -> str:
    """Lines before the first column that something concerns; none before the very first."""
    steps = [groups.steps[column] for column in frame.columns]
    places: dict[int, bool] = {}
    for mark in timeline.marks:
        column = int(np.searchsorted(steps, mark.step))
        if 0 < column < len(steps):
            places[column] = places.get(column, True) and mark.dashed
    return "".join(
        element("path", d=f"M{short(frame.x(column))} {TOP - 4:g}V{short(frame.bottom + 2)}", class_=_look(dashed))
        for column, dashed in sorted(places.items())
    )


def _look(dashed: bool) -> str:
    return "mark dashed" if dashed else "mark"


def _tip(groups: ClientGroups, at: int) -> str:
    """Where a client was, told run by run, the last ones of many."""
    spans: list[tuple[int, int, int]] = []
    for column, group in enumerate(groups.groups[at].tolist()):
        if spans and spans[-1][2] == group:
            spans[-1] = (spans[-1][0], column, group)
        else:
            spans.append((column, column, group))
    lines = [f"client {groups.clients[at]}" + (f", hidden group {groups.hidden[at]}" if groups.hidden else "")]
    lines += ["…"] if len(spans) > LONGEST_TIP else []
    for start, stop, group in spans[-LONGEST_TIP:]:
        first, last = plain(groups.steps[start]), plain(groups.steps[stop])
        when = first if first == last else f"{first}–{last}"
        lines.append(f"{groups.x_label} {when}: " + ("not known" if group < 0 else f"group {group}"))
    return "\n".join(lines)


def _table(groups: ClientGroups) -> str:
    """The last groups: their clients, hidden groups and score."""
    last = groups.groups[:, -1].tolist()
    heads = ["group", "clients"] + (["hidden groups"] if groups.hidden else [])
    heads += [text(groups.score)] if groups.scores else []
    rows = []
    for group in sorted(set(last), key=lambda key: (key < 0, key)):
        members = [at for at, own in enumerate(last) if own == group]
        cells = [str(len(members))]
        if groups.hidden:
            cells.append(text(_counted([groups.hidden[at] for at in members])))
        if groups.scores:
            cells.append(shown(groups.scores.get(group), "share"))
        name = "not known" if group < 0 else group_mark(group, str(group))
        cells.append(text(listed([groups.clients[at] for at in members])))
        rows.append(element("tr", element("th", name, scope="row"), *(element("td", cell) for cell in cells)))
    head = element("tr", *(element("th", name, scope="col") for name in [*heads, "which"]))
    table = element("table", element("thead", head), element("tbody", *rows), class_="numbers members")
    return sheet(table, "Clients of each group")


def _counted(hidden: Sequence[str]) -> str:
    """How many clients of each hidden group, the most frequent first."""
    counts = sorted(Counter(hidden).items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {name}" for name, count in counts)


def _in_words(groups: ClientGroups) -> str:
    last = groups.groups[:, -1]
    found = len(set(last[last >= 0].tolist()))
    changed = int((_first_known(groups.groups) != last).sum())
    return (
        f"Groups of {len(groups.clients)} clients by {groups.x_label}: {found} in the end; {changed} clients are then "
        "in another group than at first. The table below lists the members."
    )


def _first_known(groups: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """The first group of each client that is known; the first of all where none is."""
    first: NDArray[np.integer[Any]] = groups[np.arange(len(groups)), (groups >= 0).argmax(axis=1)]
    return first


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
