"""Opposites that are truth values in text, such as no and yes, in several languages."""

from __future__ import annotations

from collections.abc import Sequence

BOOLEANS = (
    ("no", "yes"), ("false", "true"), ("n", "y"), ("f", "t"), ("nein", "ja"), ("n", "j"), ("falsch", "wahr"),
    ("non", "oui"), ("faux", "vrai"),
)  # fmt: skip
"""Opposites that are truth values, in lower case, the false one first, of which one alone is enough if it is a word."""
BOTH_BOOLEANS = (
    ("no", "sí"), ("no", "si"), ("no", "sì"), ("não", "sim"), ("nao", "sim"), ("nee", "ja"), ("nej", "ja"),
    ("nei", "ja"), ("nie", "tak"), ("ne", "ano"), ("nem", "igen"), ("нет", "да"), ("falso", "vero"),
    ("falso", "verdadero"), ("falso", "verdadeiro"),
)  # fmt: skip
"""Such opposites of which both must be there, for one alone is another word elsewhere."""

_MIXED = (
    (("no", "false", "n", "f", "0"), ("yes", "true", "y", "t", "1")),
    (("nein", "falsch", "false", "n", "0"), ("ja", "wahr", "true", "j", "1")),
    (("non", "faux", "false", "n", "0"), ("oui", "vrai", "true", "o", "1")),
    (
        ("no", "nein", "non", "false", "falsch", "faux", "n", "0"),
        ("yes", "ja", "oui", "true", "wahr", "vrai", "y", "j", "1"),
    ),
)
"""False and true in one language, or at last in any, as files that were put together have them side by side."""


def is_enough(no: str, yes: str) -> bool:
    """Return whether one of two opposites alone is a truth value."""
    return len(no) > 1 and (no, yes) in BOOLEANS


def meant_as_truths(word: str) -> float | None:
    """Return 0 or 1 for a word of false or true in a language that is known, alone; ``None`` for others."""
    found = {float(word.lower() == yes) for no, yes in (*BOOLEANS, *BOTH_BOOLEANS) if word.lower() in (no, yes)}
    return found.pop() if len(found) == 1 else None


def truths_in(words: Sequence[str]) -> tuple[tuple[str, str], list[bool]] | None:
    """Return how a column writes false and true, and which of its texts are true; ``None`` if others are among them.

    A single word is enough, unless it is one letter: a client may have only one of the two. Several spellings in one
    column, as yes, Y, no and 0, have both, and a whole word, for letters and digits alone may be codes.
    """
    spelt = {word.lower(): word for word in reversed(words)}  # as each comes first
    for no, yes in (*BOOLEANS, *BOTH_BOOLEANS):
        if spelt.keys() == {no, yes} or (is_enough(no, yes) and spelt.keys() <= {no, yes}):
            return (spelt.get(no, no), spelt.get(yes, yes)), [word.lower() == yes for word in words]
    for noes, yeses in _MIXED:
        known = {word: spelt[word] for word in (*noes, *yeses) if word in spelt}
        if len(known) < len(spelt) or not any(len(word) > 1 for word in known):
            continue
        one, other = ([word for word in own if word in spelt] for own in (noes, yeses))
        if one and other:
            return (spelt[one[0]], spelt[other[0]]), [word.lower() in yeses for word in words]
    return None
