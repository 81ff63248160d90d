"""Pydantic's validation errors as one sentence for the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from fedkin.core.errors import FedkinError, hint, listing, nearest, unknown_name

_WORDS = {
    "an object": "a section",
    "array": "list",
    "String should have": "a string of",
    "List should have": "a list of",
    " after validation": "",
}
"""Pydantic's words, and the words for users of TOML files that replace them."""


def validation_sentence(
    error: ValidationError,
    values: Any,
    allowed: Iterable[str],
    place: str,
    places: Mapping[str, str] | None = None,
    depth: int | None = None,
    example: str = "",
    elsewhere: Mapping[str, str] | None = None,
) -> FedkinError:
    """Return pydantic's first complaint as an error of one sentence; unknown keys come before anything else.

    `values` are the validated tables and lists, and `allowed` the paths of their keys; the nearest to an unknown one is
    suggested, if there are any. `place` says where they were given, such as "in FILE", and `places` the same of single
    keys, by path or section. `elsewhere` says what keys of other programs are called here. Below the `depth` of the
    keys, pydantic names branches of a union and positions in a list.
    """
    problems = error.errors(include_url=False)
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    key = first["loc"][:depth]
    path = ".".join(map(str, key))
    place = (places or {}).get(path, (places or {}).get(path.split(".")[0], place))
    if first["type"] == "extra_forbidden":
        known = list(allowed)
        return _unknown_key(path, place, known, elsewhere or {})
    if first["type"] == "missing":
        return FedkinError(f"'{path}' has no default; give it {place}{example.format(path=path)}.")
    value = values
    for part in key:
        value = value[part]
    same = [problem["msg"] for problem in problems if problem["loc"][:depth] == key]
    wanted = " or ".join(dict.fromkeys(message.removeprefix("Input should be ") for message in same))
    for theirs, ours in _WORDS.items():
        wanted = wanted.replace(theirs, ours)
    if isinstance(value, str):
        bare = " (in the shell, between double quotes)" if value.startswith("[") else ""
        parts = [part.strip(" '\"") for part in value.strip("[]").split(",")]
        wanted = wanted.replace("a valid list", f"a list, such as [{', '.join(map(_quoted, parts))}]{bare}")
    shown = _quoted(value) if isinstance(value, str) else repr(value)
    return FedkinError(f"'{path}' is {shown} {place}; it should be {wanted}.")


def _unknown_key(path: str, place: str, known: list[str], elsewhere: Mapping[str, str]) -> FedkinError:
    """Return the error for an unknown key, with the one that is probably meant.

    A key of a section that exists is compared with those of the section alone: its own name would make all alike.
    """
    if not known:
        return FedkinError(f"'{path}' {place} is no known key.")
    section, _, key = path.rpartition(".")
    own = [each for each in known if section and each.startswith(f"{section}.")]
    if not own:
        return unknown_name(f"key {place}:", path, known)
    meant, near = elsewhere.get(key, key), nearest(key, [each.removeprefix(f"{section}.") for each in own])
    found = next((each for each in (f"{section}.{meant}", meant) if each in known), near and f"{section}.{near}")
    return FedkinError(f"Unknown key {place}: '{path}'; {hint(found, f'allowed: {listing(sorted(own))}')}")


def _quoted(text: str) -> str:
    """Return a text in quotes, with backslashes as they were typed, which Python would double."""
    return f"'{text}'" if "\\" in text and text.isprintable() else repr(text)
