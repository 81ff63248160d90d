"""Page and terminal tables of attacks on messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from fedkin.experiment.terminal_tables import sentence_text, table_text
from fedkin.privacy.accounting import MEANINGFUL_EPSILON
from fedkin.report.drawings import sprite
from fedkin.report.figures import ResultTable, TableCell
from fedkin.report.markup import element, notes_list, scrolling, table
from fedkin.report.page import Section, fill_page
from fedkin.report.tables import result_table

_MUCH = 0.1
"""Advantage of membership inference, less its error, from which it is called much."""


def verdict(tree: Mapping[str, Any]) -> str:
    """Compare the guarantee with what the attacks achieve, at the lowest flip probability in the run.

    `tree` is what ``attack.json`` holds.
    """
    flip = min(tree["flips"])
    noise = f"With every bit flipped with probability {100 * flip:g} %" if flip else "Without noise"
    return f"{noise}, {_guarantee(tree)}. {_in_practice(tree, flip)}"


def headlines(tree: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the headline numbers of the verdict: label, value and explanation."""
    flip = min(tree["flips"])
    epsilon = _weakest(tree)
    said = "none" if epsilon is None or epsilon > MEANINGFUL_EPSILON else f"ε = {epsilon:.3g}"
    of = "" if epsilon is None else f"; ε is {epsilon:,.0f}" if epsilon > MEANINGFUL_EPSILON else ""
    rows = [("Guarantee", said, f"that is meaningful for all samples of a client{of}")]
    held = _level(tree["membership"], flip)["held"]
    if "1" in held:
        rows.append(("Advantage, one sample", advantage_text(held["1"]), "where a client has one sample of a class"))
    rows.append(
        ("Advantage, as sent", advantage_text(held["sent"]), "of membership inference; 0 is chance, 1 certainty")
    )
    found = tree["reconstruction"]
    recognised = 100 * _level(found, flip)["recognised"]
    rows.append(
        ("Recognised", f"{recognised:.1f} %", f"of reconstructed samples; chance {100 / found['samples']:.1f} %")
    )
    return rows


def _guarantee(tree: Mapping[str, Any]) -> str:
    epsilon = _weakest(tree)
    if epsilon is None:
        return "there is no privacy guarantee"
    if epsilon > MEANINGFUL_EPSILON:
        return f"there is no meaningful guarantee (ε = {epsilon:,.0f} for all samples of a client)"
    return f"a message guarantees ε = {epsilon:.3g} for all samples of a client"


def _in_practice(tree: Mapping[str, Any], flip: float) -> str:
    """Describe what membership inference finds in messages as sent, and from clients with one sample."""
    held = _level(tree["membership"], flip)["held"]
    sent = held["sent"]
    sure = sent["advantage"] - sent["margin"]
    if sure > _MUCH:
        found = "In practice messages as sent reveal who took part"
    elif sure > 0:
        found = "In practice messages as sent reveal a little of who took part"
    else:
        found = "In practice membership inference from messages as sent is no better than chance"
    alone = held.get("1")
    text = f"{found} (advantage {advantage_text(sent)}"
    if alone is not None and alone["advantage"] - alone["margin"] > max(_MUCH, sure):
        return f"{text}), but a sample that is the only one of its class at its client shows ({advantage_text(alone)})."
    return f"{text})."


def _weakest(tree: Mapping[str, Any]) -> float | None:
    """Return the greatest epsilon of a client's samples in the run; ``None`` if one has no guarantee."""
    found = [made["epsilon_client"] for made in tree["statements"]]
    return None if None in found or not found else max(found)


def _level(part: Mapping[str, Any], flip: float) -> Mapping[str, Any]:
    own: Mapping[str, Any] = next(level for level in part["levels"] if level["flip"] == flip)
    return own


def advantage_text(found: Mapping[str, Any]) -> str:
    """The advantage of membership inference, and two standard errors of it."""
    return f"{round(found['advantage'], 2) + 0.0:.2f} ± {found['margin']:.2f}"


PictureRow = tuple[str, float, NDArray[np.floating[Any]]]
"""Heading, mean squared error, and pictures ``(n, H, W)`` or ``(n, H, W, 3)`` in [0, 1]."""

PAPER: dict[float | None, float] = {None: 0.0175, 0.0: 0.7039, 0.05: 0.8040, 0.1: 0.9075, 0.15: 0.9811, 0.2: 1.0765}
"""Table II of Prigent et al. 2024: errors by flip probability, summed over eight images."""

_TILE = 96
_NOTES = (
    "ε bounds the logarithm of the likelihood ratio of a message under two data sets. Above 1 it promises little, "
    "above 10 next to nothing; the sections below show what attacks achieve in fact.",
    "Reconstruction: the attacker has the decoder and knows the minimum and the maximum of every code; a bit of 1 "
    "stands for the maximum, 0 for the minimum.",
    "The first error is of segments made from a single sample, the worst case. The last two are of segments as sent, "
    "of which the best reconstruction is the mean of their samples.",
    "Recognised: fraction of reconstructions that are nearer to their own sample than to any other one tried.",
    "The paper's numbers are of other autoencoders and sums over eight images, so only ratios compare.",
    "Membership: the advantage is the true positive rate less the false positive rate of an attacker that has the "
    "encoder, the sample and all messages; 0 is chance, 1 is certainty. Score and threshold are chosen on one half of "
    "the cases and tried on the other; ± is two standard errors.",
    "A simulated client has the given number of samples of a class; as sent: the clients of the run.",
    "The bound is the maximum advantage of any attacker where one sample changes all bits of a segment.",
    "All of this covers the messages only, not the encoder that clients train, nor the training that follows.",
)


def level_name(flip: float | None) -> str:
    """Describe a flip probability in words."""
    return "no quantisation" if flip is None else f"P = {100 * flip:g} %"


def page_of(tree: Mapping[str, Any], pictures: Sequence[PictureRow]) -> str:
    """Return the report on the attacks as one self-contained HTML page.

    `tree` is what ``attack.json`` holds. `pictures` are originals, then reconstructions by level; there may be none.
    """
    found = tree["reconstruction"]
    guarantees = _figure(
        "Guarantees", "The smaller ε, the less a message reveals about the samples it was made from; see the notes.",
        "bound", *_guarantees(tree),
    )  # fmt: skip
    errors = _figure(
        f"Reconstruction of {found['samples']} samples, and of {found['segments']} segments as sent",
        "Mean squared errors: the larger, the less is revealed; compare them with that of a guess.",
        "level of noise", *_errors(tree),
    )  # fmt: skip
    members = _figure(
        "Advantage of membership inference", "0 is chance, 1 is certainty; noise and more samples per client lower it.",
        "level of noise", *_members(tree),
    )  # fmt: skip
    sections = [
        Section("privacy", "Privacy guarantees", guarantees),
        Section("reconstruction", "Reconstruction", errors),
        *([Section("pictures", "Reconstructed samples", _grid(pictures))] if pictures else []),
        Section("membership", "Membership inference", members),
        Section("notes", "Notes", notes_list(_NOTES)),
    ]
    own = "What the bits that clients send reveal, by the probability P with which each is flipped."
    return fill_page(f"Attacks on {tree['run']}", f"{verdict(tree)}\n{own}", headlines(tree), sections)


def as_text(tree: Mapping[str, Any]) -> str:
    """Write the verdict and the two tables of numbers for a terminal."""
    heading, rows = _errors(tree)
    few = [0, 1, 2, 4, 5]
    first = table_text([[row[at] for at in few] for row in [heading, *rows[:-1]]])
    heading, rows = _members(tree)
    second = table_text([heading, *rows], left=(0, 1))
    return (
        f"{sentence_text(verdict(tree), elsewhere=110)}\n\nReconstruction\n{first}\n\nMembership (advantage)\n{second}"
    )


def _figure(title: str, caption: str, corner: str, heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table as a figure; text in brackets at the end of a cell is set in small print beside it."""
    parted = ((row[0], [each.removesuffix(")").partition(" (") for each in row[1:]]) for row in rows)
    cells = [(name, [TableCell(number, beside) for number, _, beside in row]) for name, row in parted]
    return result_table(ResultTable(title, caption, corner, heading[1:], cells))


def _errors(tree: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    found = tree["reconstruction"]
    base = next(level["error"] for level in found["levels"] if level["flip"] == 0.0)
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
        for level in found["levels"]
    ]
    chance = f"{100 / found['samples']:.1f} %"
    rows.append(
        ["the mean of all as a guess", f"{found['guess']:.4f}", _ratio(found["guess"], base), "", "", chance, "", ""]
    )
    rows.append(["the mean of a segment's samples", "", "", "", "", "", f"{found['spread']:.4f}", "0.0000"])
    heading = ["", "error", "of P = 0 %", "paper, 8 images", "paper, of P = 0 %", "recognised"]
    return [*heading, "as sent: to samples", "to their mean"], rows


def _paper(flip: float | None) -> tuple[str, str]:
    if flip not in PAPER:
        return "", ""
    return f"{PAPER[flip]:.4f}", _ratio(PAPER[flip], PAPER[0.0])


def _ratio(part: float, whole: float) -> str:
    return f"{part / whole:.2f}" if whole else "–"


def _members(tree: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    found = tree["membership"]
    names = {name: "as sent" if name == "sent" else f"{name} samples" for name in found["held"]}
    rows = [
        [
            level_name(level["flip"]),
            _epsilon(level["epsilon"]),
            *(advantage_text(level["held"][name]) for name in names),
            f"{level['bound']:.3f}",
        ]
        for level in found["levels"]
    ]
    return ["", "ε of a segment", *names.values(), "bound"], rows


def _guarantees(tree: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    names = {
        "epsilon_bit": "ε of one bit",
        "epsilon_sample": "ε of adding or removing one sample",
        "epsilon_replaced": "ε of replacing one sample",
        "epsilon_client": "ε of all samples of a client",
        "epsilon_client_delta": "the same with δ",
    }
    statements = tree["statements"]
    rows = [[words, *(_epsilon(made[name]) for made in statements)] for name, words in names.items()]
    rows.append(["δ", *(f"{made['delta']:g}" for made in statements)])
    rows.append(["bits of a message", *(f"{made['bits']:,}" for made in statements)])
    rows.append(["bits of a segment", *(f"{made['width']:,}" for made in statements)])
    return ["", *(level_name(made["flip"]) for made in statements)], rows


def _epsilon(value: float | None) -> str:
    """Format an epsilon, followed by a note in brackets if it gives no meaningful guarantee."""
    if value is None:
        return "none"
    return f"{value:,.2f}" if value <= MEANINGFUL_EPSILON else f"{value:,.2f} (no meaningful guarantee)"


def _grid(pictures: Sequence[PictureRow]) -> str:
    rows = [(name, Markup(_strip(name, images)), f"{error:.4f}") for name, error, images in pictures]
    caption = element("p", "The same samples at every level of noise.")
    heading = element("figcaption", element("h3", "Originals and reconstructions"), caption)
    return element(
        "figure",
        heading,
        scrolling(table(["level of noise", "pictures", "error"], rows), "Originals and reconstructions"),
        class_="result",
    )


def _strip(heading: str, images: NDArray[np.floating[Any]]) -> str:
    """Join a row's pictures to one image, enlarged if they are small."""
    count, height, width = images.shape[:3]
    side = max(1, min(4, _TILE // max(height, width))) * width
    return element(
        "img",
        src=sprite(images[0], images[1:], _TILE),
        alt=f"{heading}: {count} pictures",
        style=f"display:block;width:{count * side}px;max-width:none;image-rendering:pixelated",
    )
