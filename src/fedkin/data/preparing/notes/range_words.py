"""What is unlike in a column's ranges at some clients, in sentences: one for many columns of which the same is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from fedkin.core.errors import listing
from fedkin.data.preparing.notes.data_notes import DataNote, NotedValue

_EACH, _NAMED = 3, 8
"""Columns that have a sentence each where the same is said of no more, and columns that a sentence names."""

Kind = Literal[
    "apart", "ratio", "low ratio", "farther", "nearer", "beyond", "single", "within", "shifted", "stuck", "degrees"
]
How = Literal["above", "below", "as large", "as far from 0"]

_OUTSIDE = "All values of {columns} at {where} are {how} those of the others"
_UNIT = "are they in another unit?"
_TEMPLATES: dict[Kind, str] = {
    "apart": f"{_OUTSIDE}; name the {{noun}} in drop if {{features}} of samples.",
    "ratio": f"{_OUTSIDE}, about {{times}} times {{size}} in the mean; {_UNIT}",
    "low ratio": (
        f"{_OUTSIDE}, about {{times}} times {{size}} in the mean; {_UNIT} Otherwise name the {{noun}} in drop "
        "if {features} of samples."
    ),
    "farther": f"{_OUTSIDE}, up to {{most}} times as far from 0; {_UNIT}",
    "nearer": f"{_OUTSIDE}, up to {{most}} times nearer to 0; {_UNIT}",
    "beyond": (
        "{have} values at {where} that are up to {most} times {how} as any other client's{near}; are they in another "
        "unit, or do they stand for missing ones?"
    ),
    "single": (
        "{have} a single value{each} at {where} that is {upto}{most} times {how} as any other client's; is it "
        "mistyped, or does it stand for a missing one?"
    ),
    "within": (
        "All values of {columns} at {where} are at least {least} times nearer to 0 than the farthest of any other "
        f"client; {_UNIT}"
    ),
    "shifted": (
        "{have} values at {where} that are about {times} times {size} in the mean, spread and range, in which the "
        f"other clients agree; {_UNIT}"
    ),
    "degrees": (
        "{have} values at {where} that are to those of the others as degrees {own} are to {others}, by mean, spread "
        f"and range; {_UNIT}"
    ),
    "stuck": "{have} a single value at {where}{stuck}, amid those of the others; {are} measured there?",
}


class Finding(NamedTuple):
    """What is unlike in a column at some clients.

    By `kind` all values are "apart" from those of other clients, or also in another "ratio", or a "low ratio" which
    may be for other reasons, "farther" from 0 or "nearer"; some or a "single" one are far "beyond" those of any other;
    all are so near 0 that they are "within"; or all are others' values times a number, "shifted", or in other
    "degrees", or one value amid others', "stuck".
    `where` names the clients, and `how` says in which direction or sense. `times` is how many times as much. Of the
    value farthest from 0, `value` is how it is written, and `near` how many others are near it at most, if that is
    known. `client` is the name of the one client, if the finding is on a few of its values.
    """

    kind: Kind
    where: str
    name: str
    how: How = "above"
    times: float = 1.0
    value: str = ""
    near: int | None = None
    client: str = ""


def in_sentences(found: Sequence[Finding]) -> list[str]:
    """Return sentences on what is unlike; what holds of four columns or more at the same clients is one."""
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for one in found:
        alike.setdefault((one.kind, one.where, one.how), []).append(one)
    said = []
    for own in alike.values():
        said += [_sentence(own)] if len(own) > _EACH else [_sentence([one]) for one in own]
    return said


def _sentence(found: Sequence[Finding]) -> str:
    first, some = found[0], len(found) > 1
    names = listing([f"'{one.name}'" for one in found], _NAMED)
    noun = "columns" if some else "column"
    digits = 1 if first.kind == "low ratio" else 0
    least, most = (f"{end(one.times for one in found):,.{digits}f}" for end in (min, max))
    extreme = "the largest" if first.how == "as large" else "the farthest"
    sentence = _TEMPLATES[first.kind].format(
        columns=f"{noun} {names}",
        noun=noun,
        have=f"{noun.capitalize()} {names} {'have' if some else 'has'}",
        features="they are no features" if some else "it is no feature",
        where=first.where,
        how=first.how,
        size="as large" if first.how == "above" else "smaller",
        own="Fahrenheit" if first.how == "above" else "Celsius",
        others="Celsius" if first.how == "above" else "Fahrenheit",
        least=least,
        most=most,
        times=least if least == most else f"{least} to {most}",
        each=" each" if some else "",
        stuck="" if some else f", {first.value}",
        are="are they" if some else "is it",
        upto="up to " if some else "",
        near="" if some or first.near is None else f", at most {first.near:,} of them near {extreme}",
    )
    if first.kind != "beyond":
        return sentence
    return DataNote(sentence, [NotedValue(one.name, one.client, one.value, one.how == "as large") for one in found])
