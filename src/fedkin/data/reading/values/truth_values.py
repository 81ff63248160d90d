"""Opposites that are truth values in text, such as no and yes, in several languages."""

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


def is_enough(no: str, yes: str) -> bool:
    """Return whether one of two opposites alone is a truth value."""
    return len(no) > 1 and (no, yes) in BOOLEANS
