"""Sentences of the library in the words of the shell."""

from __future__ import annotations

import re

_NAMED_OPTION = re.compile(r"\b(set )?(lacking|id|scaling|decimal|encoding) = '([^']*)'")
_IN_OPTION = re.compile(
    r"\bin (categorical or drop|drop or categorical|categorical|drop|ordinal|na_values)(?=[,.; ]|$)"
)


def in_shell(sentence: str) -> str:
    """Return a sentence with options of tables as the shell takes them, such as ``--set data.lacking=impute``."""
    said = _NAMED_OPTION.sub(_as_set, sentence)
    return _IN_OPTION.sub(lambda found: "in " + " or ".join(f"data.{name}" for name in found[1].split(" or ")), said)


def _as_set(found: re.Match[str]) -> str:
    _, name, value = found.groups()
    return f"{'give ' if found[1] else ''}--set data.{name}={value if value.isalnum() else repr(value)}"
