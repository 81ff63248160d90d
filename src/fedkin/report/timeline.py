"""Curves, phases and events over the steps of a run, as the charts show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from fedkin.core.errors import FedkinError

Unit = Literal["number", "count", "share", "percent", "bytes"]
"""How a number is written and where its axis starts: "share" is of numbers in [0, 1], "percent" in [0, 100]."""


@dataclass(frozen=True)
class Curve:
    """Quantity over the steps of a run, as one series or a few in the same unit, with a caption that says what to see.

    Steps `x` increase. A series has as many values as steps; ``None``, NaN and infinities leave a gap. They are drawn
    in order of name. `intervals` of a series, such as 95 % confidence, are drawn as a band behind it. `reference` has
    a paper's values to compare with, drawn thin, those of a series' name in its colour. `x_label` says what a step is.
    Raises FedkinError if there are more or fewer values than steps, or an interval is reversed or of no series.
    """

    title: str
    caption: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float | None]]
    unit: Unit = "number"
    x_label: str = "iteration"
    intervals: Mapping[str, Sequence[tuple[float, float] | None]] = field(default_factory=dict)
    reference: Mapping[str, Sequence[float | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check_lengths("Series", self.series)
        self._check_lengths("Reference", self.reference)
        self._check_lengths("Interval", self.intervals)
        for name, intervals in self.intervals.items():
            if name not in self.series:
                raise FedkinError(f"Interval '{name}' of curve '{self.title}' belongs to none of its series.")
            turned = next((each for each in intervals if each is not None and each[0] > each[1]), None)
            if turned is not None:
                raise FedkinError(f"Interval '{name}' of curve '{self.title}' holds {turned}, whose ends are reversed.")

    def _check_lengths(self, what: str, named: Mapping[str, Sequence[Any]]) -> None:
        for name, values in named.items():
            if len(values) != len(self.x):
                raise FedkinError(
                    f"{what} '{name}' of curve '{self.title}' has {len(values)} values for {len(self.x)} steps."
                )


class Band(NamedTuple):
    """Phase of a run, from step `first` to `last`."""

    phase: str
    first: float
    last: float


class Mark(NamedTuple):
    """Event at a step, drawn as a line, which is dashed if the method caused the event."""

    step: float
    meaning: str
    dashed: bool = False


@dataclass(frozen=True)
class Timeline:
    """Phases and events of a run, shared by all charts over its steps; the caption has both in words.

    Bands are in order, without overlaps; there are none for a run without phases.
    """

    bands: Sequence[Band] = ()
    marks: Sequence[Mark] = ()
    caption: str = ""

    def phase(self, step: float) -> str:
        """Return the phase of `step`; empty if it has none."""
        return next((band.phase for band in self.bands if band.first <= step <= band.last), "")


NO_EVENTS = Timeline()
"""A timeline without phases and events."""
