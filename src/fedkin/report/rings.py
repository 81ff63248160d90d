"""Graph layout with one ring of nodes per cluster, rings row by row in order of cluster, unmatched nodes below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

WIDTH = 400.0
HEIGHT = 440.0
SPACINGS = [44.0, 36.0, 30.0, 25.0, 21.0, 18.0, 15.5, 13.0]
LARGEST_NODE = 7.5
LARGEST_RING = 84.0
WIDEST_RING = 172.0  # only for a ring so full that its nodes would touch
TIGHTEST = 4.2
GAP = 12.0
LABEL = 22.0
NARROWEST = 66.0
TAG = 9.0  # from a node's edge to the middle of its tag
LETTER = 5.0
SHORT_TAG = 3  # letters of a tag up to which it is set in the middle of its place, and takes no room at the sides


class Place(NamedTuple):
    """Position of a node, the largest radius it may have (`room`), and the position of its tag."""

    x: float
    y: float
    room: float
    tag_x: float
    tag_y: float


@dataclass(frozen=True)
class RingLayout:
    """Layout of a graph: node positions, cluster labels as (cluster, x, y), top of the unmatched nodes, and height."""

    places: list[Place]
    labels: list[tuple[int, float, float]]
    unmatched: float | None
    height: float


def arrange(clusters: Sequence[int | None], letters: int) -> RingLayout:
    """Lay out the nodes of each cluster as a ring, as widely spaced as a roughly square drawing allows.

    `letters` is the length of the longest tag beside a node, 0 for none.
    """
    layouts = (_arrange(clusters, spacing, letters) for spacing in SPACINGS)
    return next((layout for layout in layouts if layout.height <= HEIGHT), _arrange(clusters, SPACINGS[-1], letters))


@dataclass(frozen=True)
class _Ring:
    cluster: int
    members: list[int] = field(repr=False)
    spacing: float
    letters: int

    @property
    def radius(self) -> float:
        if len(self.members) == 1:
            return 0.0
        half_turn = 2 * math.sin(math.pi / len(self.members))
        largest = min(max(LARGEST_RING, TIGHTEST / half_turn), WIDEST_RING)
        return min(self.spacing / half_turn, largest)

    @property
    def node(self) -> float:
        """Largest radius a node may have without touching its neighbours."""
        distance = self.spacing if self.radius == 0 else 2 * math.sin(math.pi / len(self.members)) * self.radius
        return min(LARGEST_NODE, 0.4 * distance)

    @property
    def reach(self) -> float:
        return self.radius + self.node + (TAG + 4 if self.letters else 0)

    @property
    def width(self) -> float:
        beside = _tag_width(self.letters) if self.letters > SHORT_TAG and self.radius else 0.0
        return max(2 * self.reach + GAP, 2 * (self.radius + self.node + beside) + GAP, NARROWEST)

    @property
    def height(self) -> float:
        return 2 * self.reach + LABEL

    def place(self, turn: int, x: float, y: float) -> Place:
        """Return the position of member `turn` on a ring around (x, y); its tag points outwards."""
        angle = 2 * math.pi * turn / len(self.members) - math.pi / 2
        across, down = math.cos(angle), math.sin(angle)
        out = self.radius + self.node + TAG
        return Place(x + self.radius * across, y + self.radius * down, self.node, x + out * across, y + out * down)


def _arrange(clusters: Sequence[int | None], spacing: float, letters: int) -> RingLayout:
    present = sorted({cluster for cluster in clusters if cluster is not None})
    members = {cluster: [at for at, own in enumerate(clusters) if own == cluster] for cluster in present}
    places: dict[int, Place] = {}
    labels: list[tuple[int, float, float]] = []
    top = 4.0
    for row in _shelves([_Ring(cluster, members[cluster], spacing, letters) for cluster in present]):
        floor = top + max(ring.height for ring in row)
        spare = (WIDTH - sum(ring.width for ring in row)) / len(row)
        left = 0.0
        for ring in row:
            x, y = left + (spare + ring.width) / 2, floor - LABEL - ring.reach
            places |= {at: ring.place(turn, x, y) for turn, at in enumerate(ring.members)}
            labels.append((ring.cluster, x, floor - 7))
            left += ring.width + spare
        top = floor + GAP
    unmatched = [at for at, own in enumerate(clusters) if own is None]
    own_places, bottom = _unmatched(len(unmatched), spacing, letters, top + 27)
    places |= dict(zip(unmatched, own_places, strict=True))
    start = top if unmatched else None
    return RingLayout(
        [places[at] for at in range(len(clusters))], labels, start, bottom if unmatched else top - GAP + 4
    )


def _unmatched(count: int, spacing: float, letters: int, top: float) -> tuple[list[Place], float]:
    """Place the unmatched nodes row by row; return their positions and the bottom of the last row."""
    room = min(LARGEST_NODE, 0.4 * spacing)
    step = max(2.6 * room, _tag_width(letters) if letters > SHORT_TAG else 0.0)
    down = 2.6 * room + (TAG + 3 if letters else 0)
    across = int(WIDTH // step)
    centres = [(step * (turn % across + 0.5), top + room + 2 + down * (turn // across)) for turn in range(count)]
    return [Place(x, y, room, x, y + room + TAG) for x, y in centres], top + down * math.ceil(count / across) + 4


def _tag_width(letters: int) -> float:
    return LETTER * letters + 6


def _shelves(rings: Sequence[_Ring]) -> list[list[_Ring]]:
    """Split rings, in order, into as few rows as hold them, of about equal width."""
    shelves = _fill(rings, WIDTH)
    limit = WIDTH - 8
    while limit > 0 and len(tighter := _fill(rings, limit)) == len(shelves):
        shelves = tighter
        limit -= 8
    return shelves


def _fill(rings: Sequence[_Ring], limit: float) -> list[list[_Ring]]:
    shelves: list[list[_Ring]] = []
    used = math.inf
    for ring in rings:
        if used + ring.width > limit:
            shelves.append([])
            used = 0.0
        shelves[-1].append(ring)
        used += ring.width
    return shelves
