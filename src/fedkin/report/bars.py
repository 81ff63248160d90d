"""Bar charts as inline SVG, upright or, for long names, horizontal, with the numbers in a folded table."""

from __future__ import annotations

import math

from fedkin.report.markup import card, drawing, element, numbers_below, short, shortened, text
from fedkin.report.numbers import nice_ticks, plain, shown, tick_labels
from fedkin.report.run_view import Bars

WIDTH, HEIGHT = 400.0, 200.0
TOP, RIGHT, BOTTOM = 14.0, 8.0, 40.0
MAX_NAMED = 20
WIDEST = 26.0
LETTER = 7.0
ROW, THICKNESS = 22.0, 12.0
LONGEST_NAME = 26


def bar_chart(bars: Bars) -> str:
    """Draw a bar chart as an HTML figure; a tooltip shows each number."""
    if not bars.values:
        return card(bars.title, bars.caption, element("p", "No values.", class_="empty"))
    return card(bars.title, bars.caption, _lying(bars) if _crowded(bars) else _drawing(bars), _numbers(bars))


def _crowded(bars: Bars) -> bool:
    """Return whether the names would overlap below upright bars but fit beside horizontal ones."""
    slot = (WIDTH - RIGHT) / len(bars.values)
    return len(bars.names) <= MAX_NAMED and LETTER * max(map(len, bars.names)) > slot


class _BarFrame:
    """Coordinates of an upright bar chart: where bars and values lie in the drawing."""

    def __init__(self, bars: Bars) -> None:
        values = [*_reaches(bars), *([] if bars.line is None else [bars.line])]
        self.ticks = nice_ticks(min(0.0, *values), max(0.0, *values), count=6)
        self.labels = tick_labels(self.ticks, "number")
        self.left = 12 + 6.6 * max(map(len, self.labels))
        self.slot = (WIDTH - RIGHT - self.left) / len(bars.values)
        self.width = min(0.72 * self.slot, WIDEST)

    def middle(self, at: int) -> float:
        return self.left + self.slot * (at + 0.5)

    def y(self, value: float) -> float:
        low, high = self.ticks[0], self.ticks[-1]
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - low) / (high - low)


def _drawing(bars: Bars) -> str:
    frame = _BarFrame(bars)
    content = (_axes(bars, frame), *(_bar(bars, frame, at) for at in range(len(bars.values))), _line(bars, frame))
    return drawing("bars", HEIGHT, _in_words(bars), *content)


def _axes(bars: Bars, frame: _BarFrame) -> str:
    parts = []
    for tick, label in zip(frame.ticks, frame.labels, strict=True):
        y = frame.y(tick)
        parts.append(element("path", d=f"M{short(frame.left)} {short(y)}H{short(WIDTH - RIGHT)}", class_="grid"))
        parts.append(element("text", text(label), x=frame.left - 7, y=y + 3.2, class_="end"))
    every = math.ceil(len(bars.names) / MAX_NAMED)
    for at in range(0, len(bars.names), every):
        parts.append(element("text", text(bars.names[at]), x=frame.middle(at), y=HEIGHT - BOTTOM + 14, class_="middle"))
    middle = (frame.left + WIDTH - RIGHT) / 2
    parts.append(element("text", text(bars.x_label), x=middle, y=HEIGHT - 8, class_="middle"))
    return "".join(parts)


def _bar(bars: Bars, frame: _BarFrame, at: int) -> str:
    top, bottom = sorted((frame.y(bars.values[at]), frame.y(0.0)))
    look = "bar strong" if bars.strong[at] else "bar"
    left = frame.middle(at) - frame.width / 2
    bar = element("rect", x=left, y=top, width=frame.width, height=bottom - top, class_=look)
    area = element(
        "rect", x=frame.middle(at) - frame.slot / 2, y=TOP, width=frame.slot, height=HEIGHT - BOTTOM - TOP,
        class_="row", data_tip=_tip(bars, at),
    )  # fmt: skip
    low, high = _whisker(bars, at)
    return bar + _error_mark(frame.middle(at), frame.middle(at), frame.y(low), frame.y(high)) + area


def _reaches(bars: Bars) -> list[float]:
    """Return the lower and upper end of every value's error bar."""
    return [end for at in range(len(bars.values)) for end in _whisker(bars, at)]


def _whisker(bars: Bars, at: int) -> tuple[float, float]:
    error = (bars.errors[at] if bars.errors else None) or 0.0
    return bars.values[at] - error, bars.values[at] + error


def _error_mark(left: float, right: float, low: float, high: float) -> str:
    """Draw an error bar between two points; return an empty string if both are the same."""
    if (left, low) == (right, high):
        return ""
    return element("path", d=f"M{short(left)} {short(low)}L{short(right)} {short(high)}", class_="whisker")


def _value(bars: Bars, at: int) -> str:
    """Format a value and its error, such as ``'0.947 ± 0.012'``."""
    error = bars.errors[at] if bars.errors else None
    if error is None:
        return shown(bars.values[at], "number")
    return f"{bars.values[at]:.3f} ± {error:.3f}"


def _tip(bars: Bars, at: int) -> str:
    return f"{bars.x_label}: {bars.names[at]}\n{_value(bars, at)}"


def _lying(bars: Bars) -> str:
    """Draw horizontal bars, one below the other, each between its name and its value."""
    names = [shortened(name, LONGEST_NAME) for name in bars.names]
    values = [_value(bars, at) for at in range(len(bars.values))]
    ends = [*_reaches(bars), 0.0, *([] if bars.line is None else [bars.line])]
    low, high = min(ends), max(ends)
    left, right = 8 + LETTER * max(map(len, names)), WIDTH - 8 - LETTER * max(map(len, values))
    left += 8 + LETTER * max(map(len, values)) if low < 0 else 0

    def x(value: float) -> float:
        return left + (right - left) * (value - low) / ((high - low) or 1.0)

    bottom = TOP + ROW * len(bars.values)
    parts = [element("path", d=f"M{short(x(0.0))} {short(TOP)}V{short(bottom)}", class_="grid")]
    if bars.line is not None:
        parts.append(element("path", d=f"M{short(x(bars.line))} {short(TOP)}V{short(bottom)}", class_="mark dashed"))
        side = "end name" if x(bars.line) > WIDTH / 2 else "name"
        parts.append(element("text", text(bars.line_name), x=x(bars.line), y=bottom + 13, class_=side))
    for at, value in enumerate(bars.values):
        top, base = TOP + ROW * at, TOP + ROW * (at + 0.5) + 3.4
        start, stop = sorted((x(value), x(0.0)))
        low_end, high_end = _whisker(bars, at)
        side, beside = ("in end", x(low_end) - 5) if value < 0 else ("in", x(high_end) + 5)
        look = "bar strong" if bars.strong[at] else "bar"
        upper = top + (ROW - THICKNESS) / 2
        parts += [
            element("text", text(names[at]), x=0, y=base),
            element("rect", x=start, y=upper, width=stop - start, height=THICKNESS, class_=look),
            _error_mark(x(low_end), x(high_end), base - 3.4, base - 3.4),
            element("text", text(values[at]), x=beside, y=base, class_=side),
            element("rect", x=0, y=top, width=WIDTH, height=ROW, class_="row", data_tip=_tip(bars, at)),
        ]
    return drawing("bars", bottom + (20 if bars.line is not None else 4), _in_words(bars), *parts)


def _line(bars: Bars, frame: _BarFrame) -> str:
    if bars.line is None:
        return ""
    y = frame.y(bars.line)
    line = element("path", d=f"M{short(frame.left)} {short(y)}H{short(WIDTH - RIGHT)}", class_="mark dashed")
    return line + element("text", text(bars.line_name), x=WIDTH - RIGHT, y=y - 5, class_="end name")


def _numbers(bars: Bars) -> str:
    columns = [list(bars.names), [plain(value) for value in bars.values]]
    heads = [bars.x_label, bars.title]
    if bars.errors:
        columns.append([plain(error) for error in bars.errors])
        heads.append("error")
    return numbers_below(bars.title, heads, zip(*columns, strict=True))


def _in_words(bars: Bars) -> str:
    strong = sum(bars.strong)
    ends = f"from {shown(min(bars.values), 'number')} to {shown(max(bars.values), 'number')}"
    line = "" if bars.line is None else f"; {bars.line_name}"
    return f"{bars.title}: {len(bars.values)} bars {ends}, {strong} of them stand out{line}."
