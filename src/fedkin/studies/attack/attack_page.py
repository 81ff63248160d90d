"""The page and the short table that tell what attacks on messages came to, drawn from plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkin.report.markup import element, scrolling, text
from fedkin.report.page import Section, page, sentences
from fedkin.report.pictures import sprite
from fedkin.report.result_tables import result_table
from fedkin.report.results_view import ResultTable, TableCell

PictureRow = tuple[str, float, NDArray[np.floating[Any]]]
"""Heading, mean squared error, and pictures ``(n, H, W)`` or ``(n, H, W, 3)`` in [0, 1]."""

PAPER: dict[float | None, float] = {None: 0.0175, 0.0: 0.7039, 0.05: 0.8040, 0.1: 0.9075, 0.15: 0.9811, 0.2: 1.0765}
"""Table II of Prigent et al. 2024: errors by flip probability, summed over eight images."""

_TILE = 96
_NOTES = (
    "An ε bounds the logarithm of how much likelier a message may become by what it is about. Much above 1 it promises "
    "little, and above 10 next to nothing; what attacks achieve in fact is below.",
    "Reconstruction: the attacker has the decoder and is told the least and the greatest number of every code; a bit "
    "of 1 stands for the greatest, 0 for the least.",
    "The first error is of segments that a single sample makes, the worst case; the last two are of segments as "
    "clients send them, for which no single picture is better than the mean of the samples behind them.",
    "Recognised is the share of reconstructions that are nearer to their own sample than to any other of those tried.",
    "The paper's numbers are of other autoencoders and sums over eight images, so only ratios compare.",
    "Membership: the advantage is the true positive rate less the false positive rate of an attacker that has the "
    "encoder, the sample and all messages; 0 is chance, 1 is certainty. Score and threshold are chosen on one half of "
    "the cases and tried on the other; ± is two standard errors. The area is that under the curve of both rates, 0.5 "
    "by chance.",
    "Held is how many samples of a class a made-up client has; as sent, clients have those of the run.",
    "The bound is the greatest advantage that any attacker can have where one sample changes all bits of a segment.",
    "All of it is about messages alone: an encoder trained by the clients, and the training that follows, tell more.",
)


def level_name(flip: float | None) -> str:
    """A level of noise in words."""
    return "no quantisation" if flip is None else f"P = {100 * flip:g} %"


def page_of(tree: Mapping[str, Any], pictures: Sequence[PictureRow]) -> str:
    """The page as HTML that needs nothing else.

    Parameters
    ----------
    tree : mapping
        What ``attack.json`` holds.
    pictures : sequence of PictureRow
        Originals, then reconstructions by level; may be empty.
    """
    sections = [
        Section("privacy", "What is guaranteed", result_table(_guarantee_table(tree))),
        Section("reconstruction", "What can be reconstructed", result_table(_error_table(tree))),
        *([Section("pictures", "What that looks like", _grid(pictures))] if pictures else []),
        Section("membership", "Who can be told to be a member", result_table(_member_table(tree))),
        Section("notes", "Notes", sentences(_NOTES)),
    ]
    lead = "What the bits that clients send give away, by the probability P with which each is flipped."
    return page(f"Attacks on {tree['run']}", lead, [], sections)


def as_text(tree: Mapping[str, Any]) -> str:
    """The two tables of numbers for a terminal."""
    heading, rows = _errors(tree)
    few = [0, 1, 2, 4, 5]
    first = _aligned([[row[at] for at in few] for row in [heading, *rows[:-1]]])
    heading, rows = _members(tree, area=False)
    return f"Reconstruction\n{first}\n\nMembership (advantage)\n{_aligned([heading, *rows])}"


def _guarantee_table(tree: Mapping[str, Any]) -> ResultTable:
    caption = "The smaller an ε, the less a message can tell about what it was made from; see the notes."
    heading, rows = _guarantees(tree)
    return ResultTable("Guarantees", caption, "what is bounded", heading[1:], _cells(rows))


def _error_table(tree: Mapping[str, Any]) -> ResultTable:
    told = tree["reconstruction"]
    title = f"Reconstruction of {told['samples']} samples, and of {told['segments']} segments as sent"
    caption = "Mean squared errors: the larger, the less is given away; compare them with that of a guess."
    heading, rows = _errors(tree)
    return ResultTable(title, caption, "level of noise", heading[1:], _cells(rows))


def _member_table(tree: Mapping[str, Any]) -> ResultTable:
    caption = "An advantage of 0 is chance, one of 1 certainty; see what noise and more samples held do to it."
    heading, rows = _members(tree)
    return ResultTable("Advantage in telling members", caption, "level of noise", heading[1:], _cells(rows))


def _cells(rows: Sequence[Sequence[str]]) -> list[tuple[str, list[TableCell]]]:
    """Rows of cells; what a text has in brackets at its end is set beside it."""
    parted = ((row[0], [each.removesuffix(")").partition(" (") for each in row[1:]]) for row in rows)
    return [(name, [TableCell(number, beside) for number, _, beside in row]) for name, row in parted]


def _errors(tree: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    told = tree["reconstruction"]
    base = next(level["error"] for level in told["levels"] if level["flip"] == 0.0)
    rows = [
        [
            level_name(level["flip"]),
            f"{level['error']:.4f}",
            _ratio(level["error"], base),
            *_paper(level["flip"]),
            f"{100 * level['recognised']:.1f} %",
            f"{level['sent_to_samples']:.4f}",
            f"{level['sent_to_mean']:.4f}",
        ]
        for level in told["levels"]
    ]
    chance = f"{100 / told['samples']:.1f} %"
    rows.append(
        ["the mean of all as a guess", f"{told['guess']:.4f}", _ratio(told["guess"], base), "", "", chance, "", ""]
    )
    rows.append(["the mean of a segment's samples", "", "", "", "", "", f"{told['spread']:.4f}", "0.0000"])
    heading = ["", "error", "of P = 0 %", "paper, 8 images", "paper, of P = 0 %", "recognised"]
    return [*heading, "as sent: to samples", "to their mean"], rows


def _paper(flip: float | None) -> tuple[str, str]:
    if flip not in PAPER:
        return "", ""
    return f"{PAPER[flip]:.4f}", _ratio(PAPER[flip], PAPER[0.0])


def _ratio(part: float, whole: float) -> str:
    return f"{part / whole:.2f}" if whole else "–"


def _members(tree: Mapping[str, Any], area: bool = True) -> tuple[list[str], list[list[str]]]:
    told = tree["membership"]
    names = {name: "as sent" if name == "sent" else f"{name} held" for name in told["held"]}
    rows = [
        [
            level_name(level["flip"]),
            _epsilon(level["epsilon"]),
            *(_advantage(level["held"][name], area) for name in names),
            f"{level['bound']:.3f}",
        ]
        for level in told["levels"]
    ]
    return ["", "ε of a segment", *names.values(), "bound"], rows


def _advantage(found: Mapping[str, Any], area: bool) -> str:
    advantage = f"{round(found['advantage'], 2) + 0.0:.2f} ± {found['margin']:.2f}"
    return f"{advantage} (area {found['area']:.2f})" if area else advantage


def _guarantees(tree: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    names = {
        "epsilon_bit": "ε of one bit",
        "epsilon_sample": "ε of one sample that is there or not",
        "epsilon_replaced": "ε of one sample that is that or another",
        "epsilon_client": "ε of all that a client holds",
        "epsilon_client_delta": "the same with δ",
    }
    statements = tree["statements"]
    rows = [[words, *(_epsilon(made[name]) for made in statements)] for name, words in names.items()]
    rows.append(["δ", *(f"{made['delta']:g}" for made in statements)])
    rows.append(["bits of a message", *(f"{made['bits']:,}" for made in statements)])
    rows.append(["bits of a segment", *(f"{made['width']:,}" for made in statements)])
    return ["", *(level_name(made["flip"]) for made in statements)], rows


def _epsilon(value: float | None) -> str:
    return "none" if value is None else f"{value:,.2f}"


def _grid(pictures: Sequence[PictureRow]) -> str:
    heads = (element("th", head, scope="col") for head in ("level of noise", "pictures", "error"))
    rows = [
        element(
            "tr", element("th", text(name), scope="row"), element("td", _strip(name, images)),
            element("td", f"{error:.4f}"),
        )
        for name, error, images in pictures
    ]  # fmt: skip
    drawn = element("table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="numbers")
    caption = element("p", "The same samples at every level: what can still be recognised is given away.")
    heading = element("figcaption", element("h3", "Originals and reconstructions"), caption)
    return element("figure", heading, scrolling(drawn, "Originals and reconstructions"), class_="result")


def _strip(heading: str, images: NDArray[np.floating[Any]]) -> str:
    """All of a row's pictures as one image, enlarged where they are small."""
    count, height, width = images.shape[:3]
    side = max(1, min(4, _TILE // max(height, width))) * width
    return element(
        "img",
        src=sprite(images[0], images[1:], _TILE),
        alt=f"{heading}: {count} pictures",
        style=f"display:block;width:{count * side}px;max-width:none;image-rendering:pixelated",
    )


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *line[1:]]) for row, line in zip(rows, lines, strict=True))
