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
    flip, epsilon = min(tree["flips"]), _weakest(tree)
    noise = f"With every bit flipped with probability {100 * flip:g} %" if flip else "Without noise"
    if epsilon is None:
        guarantee = "there is no privacy guarantee"
    elif epsilon > MEANINGFUL_EPSILON:
        guarantee = f"there is no meaningful guarantee (ε = {epsilon:,.0f} for all samples of a client)"
    else:
        guarantee = f"a message guarantees ε = {epsilon:.3g} for all samples of a client"
    held = _level(tree["membership"], flip)["held"]
    sure = held["sent"]["advantage"] - held["sent"]["margin"]
    if sure > _MUCH:
        found = "messages as sent reveal who took part"
    elif sure > 0:
        found = "messages as sent reveal a little of who took part"
    else:
        found = "membership inference from messages as sent is no better than chance"
    text = f"{noise}, {guarantee}. In practice {found} (advantage {advantage_text(held['sent'])})"
    single = held.get("1")
    if single is not None and single["advantage"] - single["margin"] > max(_MUCH, sure):
        text += f", but a sample that is the only one of its class at its client shows ({advantage_text(single)})"
    return f"{text}."


def headlines(tree: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the headline numbers of the verdict: label, value and explanation."""
    flip, found = min(tree["flips"]), tree["reconstruction"]
    held = _level(tree["membership"], flip)["held"]
    shown = {"1": ("one sample", "where a client has one sample of a class"),
             "sent": ("as sent", "of membership inference; 0 is chance, 1 certainty")}  # fmt: skip
    recognised = 100 * _level(found, flip)["recognised"]
    epsilon = _weakest(tree)
    weak = epsilon is None or epsilon > MEANINGFUL_EPSILON
    return [
        ("ε of a client", _epsilon(epsilon), "of all its samples" + (", no meaningful guarantee" if weak else "")),
        *((f"Advantage, {shown[name][0]}", advantage_text(held[name]), shown[name][1]) for name in held),
        ("Recognised", f"{recognised:.1f} %", f"of reconstructed samples; chance {100 / found['samples']:.1f} %"),
    ]


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
    "above 10 next to nothing.",
    "Reconstruction is of segments made from a single sample, the worst case. The attacker has the decoder and knows "
    "the minimum and the maximum of every code. Recognised: nearer to its own sample than to any other one tried.",
    "The paper's numbers are of other autoencoders and sums over eight images, so only ratios compare.",
    "Membership: the advantage is the true positive rate less the false positive rate of an attacker that has the "
    "encoder, the sample and all messages. Score and threshold are chosen on one half of the cases and tried on the "
    "other; ± is two standard errors. The bound is of any attacker where one sample changes all bits of a segment.",
    "All of this covers the messages only, not the encoder that clients train, nor the training that follows.",
)
Rows = list[list[str]]


def level_name(flip: float | None) -> str:
    """Describe a flip probability in words."""
    return "no quantisation" if flip is None else f"P = {100 * flip:g} %"


def page_of(tree: Mapping[str, Any], pictures: Sequence[PictureRow]) -> str:
    """Return the report on the attacks as one self-contained HTML page.

    `tree` is what ``attack.json`` holds. `pictures` are originals, then reconstructions by level; there may be none.
    """
    guarantees = "The smaller ε, the less a message reveals about the samples it was made from; see the notes."
    errors = "Mean squared errors: the larger, the less is revealed; compare them with that of a guess."
    members = "0 is chance, 1 is certainty; noise and more samples per client lower it."
    samples = f"Reconstruction of {tree['reconstruction']['samples']} samples"
    sections = [
        Section("privacy", "Privacy guarantees", _figure("Guarantees", guarantees, _guarantees(tree))),
        Section("reconstruction", "Reconstruction", _figure(samples, errors, _errors(tree))),
        *([Section("pictures", "Reconstructed samples", _grid(pictures))] if pictures else []),
        Section("membership", "Membership inference", _figure("Advantage", members, _members(tree))),
        Section("notes", "Notes", notes_list(_NOTES)),
    ]
    own = "What the bits that clients send reveal, by the probability P with which each is flipped."
    return fill_page(f"Attacks on {tree['run']}", f"{verdict(tree)}\n{own}", headlines(tree), sections)


def as_text(tree: Mapping[str, Any]) -> str:
    """Write the verdict and the two tables of numbers for a terminal."""
    return (
        f"{sentence_text(verdict(tree), elsewhere=110)}\n\nReconstruction\n{table_text(_errors(tree))}\n\n"
        f"Membership (advantage)\n{table_text(_members(tree), left=(0, 1))}"
    )


def _figure(title: str, caption: str, rows: Rows) -> str:
    """Write rows, the headings first, as a figure."""
    (corner, *columns), *below = rows
    cells = [(name, [TableCell(text) for text in texts]) for name, *texts in below]
    return result_table(ResultTable(title, caption, corner, columns, cells))


def _errors(tree: Mapping[str, Any]) -> Rows:
    found = tree["reconstruction"]
    base = next(level["error"] for level in found["levels"] if level["flip"] == 0.0)
    rows = [["", "error", "of P = 0 %", "paper, of P = 0 %", "recognised"]]
    for level in found["levels"]:
        paper = _ratio(PAPER[level["flip"]], PAPER[0.0]) if level["flip"] in PAPER else ""
        error, recognised = level["error"], 100 * level["recognised"]
        rows.append([level_name(level["flip"]), f"{error:.4f}", _ratio(error, base), paper, f"{recognised:.1f} %"])
    guess = found["guess"]
    chance = f"{100 / found['samples']:.1f} %"
    return [*rows, ["the mean of all as a guess", f"{guess:.4f}", _ratio(guess, base), "", chance]]


def _ratio(part: float, whole: float) -> str:
    return f"{part / whole:.2f}" if whole else "–"


def _members(tree: Mapping[str, Any]) -> Rows:
    found = tree["membership"]
    names = {name: {"sent": "as sent", "1": "one sample"}[name] for name in found["held"]}
    rows = [["", "ε of a segment", *names.values(), "bound"]]
    for level in found["levels"]:
        advantages = [advantage_text(level["held"][name]) for name in names]
        rows.append([level_name(level["flip"]), _epsilon(level["epsilon"]), *advantages, f"{level['bound']:.3f}"])
    return rows


def _guarantees(tree: Mapping[str, Any]) -> Rows:
    names = {
        "epsilon_bit": "ε of one bit",
        "epsilon_sample": "ε of adding or removing one sample",
        "epsilon_replaced": "ε of replacing one sample",
        "epsilon_client": "ε of all samples of a client",
        "epsilon_client_delta": "the same with δ",
    }
    statements = tree["statements"]
    return [
        ["bound", *(level_name(made["flip"]) for made in statements)],
        *([words, *(_epsilon(made[name]) for made in statements)] for name, words in names.items()),
        ["δ", *(f"{made['delta']:g}" for made in statements)],
        ["bits of a message", *(f"{made['bits']:,}" for made in statements)],
        ["bits of a segment", *(f"{made['width']:,}" for made in statements)],
    ]


def _epsilon(value: float | None) -> str:
    return "none" if value is None else f"{value:,.2f}"


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
