"""Verdict on attacks on messages: two sentences and four numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedkin.privacy.accounting import MEANINGFUL_EPSILON

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
