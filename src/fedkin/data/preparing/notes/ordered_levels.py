"""Which texts of a column have a usual order, as answers from never to always, and age groups, have."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import pairwise

_SCALES = (
    (
        "strongly disagree|completely disagree|totally disagree|fully disagree",
        "disagree",
        "somewhat disagree|slightly disagree|rather disagree|tend to disagree",
        "neutral|neither|neither agree nor disagree|neither disagree nor agree|undecided",
        "somewhat agree|slightly agree|rather agree|tend to agree",
        "agree",
        "strongly agree|completely agree|totally agree|fully agree",
    ),
    (
        "never", "almost never|hardly ever", "rarely|seldom", "occasionally", "sometimes", "often|frequently",
        "usually|very often|mostly", "almost always", "always",
    ),
    (
        "very dissatisfied|very unsatisfied", "dissatisfied|unsatisfied", "somewhat dissatisfied",
        "neutral|neither|neither satisfied nor dissatisfied", "somewhat satisfied", "satisfied", "very satisfied",
    ),
    ("very poor|very bad", "poor|bad", "fair|average|acceptable", "good", "very good", "excellent"),
    ("none|absent", "minimal", "mild|slight", "moderate", "severe|marked", "very severe|extreme"),
    ("very low", "low", "medium|moderate|middle|average|normal", "high", "very high"),
    ("extra small|xs", "small|s", "medium|m", "large|l", "extra large|xl", "xxl"),
    ("very unlikely", "unlikely", "neutral|neither", "likely", "very likely"),
    (
        "not at all|very slightly or not at all", "a little|slightly", "somewhat", "moderately", "quite a bit",
        "very|very much", "extremely",
    ),
    (
        "not at all important|not important|unimportant", "slightly important", "somewhat important",
        "moderately important", "important", "very important", "extremely important",
    ),
    (
        "stimme gar nicht zu|stimme überhaupt nicht zu|trifft gar nicht zu|trifft überhaupt nicht zu",
        "stimme nicht zu|trifft nicht zu", "stimme eher nicht zu|trifft eher nicht zu",
        "teils teils|teils/teils|teils-teils|weder noch|neutral|unentschieden", "stimme eher zu|trifft eher zu",
        "stimme zu|trifft zu",
        "stimme voll zu|stimme voll und ganz zu|trifft voll zu|trifft voll und ganz zu|trifft völlig zu",
    ),
    ("nie|niemals", "fast nie", "selten", "gelegentlich|manchmal", "oft|häufig", "meistens|sehr oft", "immer"),
    ("sehr unzufrieden", "unzufrieden", "teils teils|teils/teils|neutral", "zufrieden", "sehr zufrieden"),
    ("sehr schlecht", "schlecht", "mittel|mittelmäßig", "gut", "sehr gut"),
    ("sehr niedrig|sehr gering", "niedrig|gering", "mittel", "hoch", "sehr hoch"),
    ("keine", "leicht", "mäßig|mittel", "schwer"),
    ("jamais", "rarement", "parfois", "souvent", "très souvent", "toujours"),
    ("pas du tout d'accord", "pas d'accord", "neutre|ni d'accord ni pas d'accord", "d'accord", "tout à fait d'accord"),
    ("très faible", "faible", "moyen", "élevé|fort", "très élevé|très fort"),
)  # fmt: skip
"""Answers in order, with other words for the same; of a column all texts are of one of these."""
_PLACES = [{word: float(place) for place, words in enumerate(scale) for word in words.split("|")} for scale in _SCALES]
_LEAST = 3
"""Levels that a column has at least: of two, the order says nothing."""
_GRADE = re.compile(r"(?P<mark>[A-F1-6])(?P<sign>[+-]?)")
_SIGNS = ("-", "", "+")
_RANGE = re.compile(r"(?P<low>\d+) ?(?:-|–|to|bis) ?(?P<high>\d+)")
_BELOW = re.compile(r"(?:<|<=|≤|under|below|unter) ?(?P<high>\d+)", re.IGNORECASE)
_ABOVE = re.compile(r"(?:>|>=|≥|over|above|über) ?(?P<low>\d+)|(?P<from>\d+) ?(?:\+| and over| or more)", re.IGNORECASE)


def in_usual_order(texts: Collection[str]) -> list[str] | None:
    """Return texts in the order that they usually have; ``None`` if they have none, or are fewer than three.

    They are answers of one scale, in English, German or French, marks of schools with signs, as B+ and C-, or ranges
    that follow each other, as 18-25, 26-35 and 36+.
    """
    if len(texts) < _LEAST:
        return None
    words = {text: " ".join(text.casefold().split()).replace("’", "'") for text in texts}
    for places in _PLACES:
        if all(word in places for word in words.values()):
            found = sorted(texts, key=lambda text: places[words[text]])
            apart = all(places[words[one]] < places[words[other]] for one, other in pairwise(found))
            return found if apart else None
    return _grades_in_order(texts) or _ranges_in_order(texts)


def _grades_in_order(texts: Collection[str]) -> list[str] | None:
    """Return marks of schools, such as A-, B+ and C or 1-, 2 and 3+, from the worst to the best.

    There are three letters or numbers or more, some with a plus and some with a minus, for A and B may be anything.
    """
    found = {text: _GRADE.fullmatch(text) for text in texts}
    marks = [(text, grade["mark"], grade["sign"]) for text, grade in found.items() if grade]
    few = len({mark for _, mark, _ in marks}) < _LEAST or not {"+", "-"} <= {sign for *_, sign in marks}
    if few or len(marks) < len(texts) or len({mark.isdigit() for _, mark, _ in marks}) > 1:
        return None
    return [text for text, *_ in sorted(marks, key=lambda one: (-ord(one[1]), _SIGNS.index(one[2])))]


def _ranges_in_order(texts: Collection[str]) -> list[str] | None:
    """Return ranges in order if each begins where the one before ends, or one above."""
    ends: dict[str, tuple[int, int]] = {}
    for text in texts:
        if between := _RANGE.fullmatch(text):
            ends[text] = (int(between["low"]), int(between["high"]))
        elif below := _BELOW.fullmatch(text):
            ends[text] = (-1, int(below["high"]))
        elif above := _ABOVE.fullmatch(text):
            ends[text] = (int(above["low"] or above["from"]), -1)
        else:
            return None
    found = sorted(texts, key=lambda text: ends[text][0])
    if any(ends[text][1] <= ends[text][0] for text in found[1:-1]):
        return None
    return found if all(0 <= ends[after][0] - ends[before][1] <= 1 for before, after in pairwise(found)) else None
