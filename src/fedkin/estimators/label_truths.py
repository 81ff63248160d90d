"""Truth values as labels in Python, which clients may write in different ways, as files may: 0 and 1, no and yes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkin.data.preparing.notes.column_notes import note_on_written_labels
from fedkin.data.reading.label_codes import meant_by
from fedkin.data.reading.values.text_values import as_whole

ClassLabels = NDArray[Any]


def in_one_code(labels: Sequence[ClassLabels], names: Sequence[str]) -> tuple[list[ClassLabels], list[str]]:
    """Return the clients' labels with truth values as most clients write them, and a note on those that do not.

    Nothing changes if any client has other labels, or all have numbers.
    """
    known: list[Mapping[str, Any]] = [_by_name(own) for own in labels]
    meant = (
        {}
        if all(own.dtype.kind != "U" for own in labels)
        else meant_by({name: [*own] for name, own in zip(names, known, strict=True)})
    )
    if not meant:
        return list(labels), []
    values = {name: value for own in known for name, value in own.items()}
    written = {
        name: [*own] for name, own in zip(names, known, strict=True) if any(meant[label] != label for label in own)
    }
    classes = list(dict.fromkeys(meant[label] for own in known for label in own))
    coded = [_coded(own, meant, values) for own in labels]
    return coded, note_on_written_labels(written, sorted(classes))


def as_in_fit(labels: ClassLabels, classes: ClassLabels) -> ClassLabels:
    """Return labels as `classes` are written, if both are truth values; others unchanged."""
    own, known = _by_name(labels), _by_name(classes)
    same = (labels.dtype.kind == "U") == (classes.dtype.kind == "U")
    if (same and own.keys() <= known.keys()) or len(known) != 2:
        return labels
    meant = meant_by({"fit": [*known], "more": [*known], "here": [*own]})
    return _coded(labels, meant, known) if meant else labels


def _by_name(labels: ClassLabels) -> dict[str, Any]:
    """Return the distinct labels by the text that they are written as in a file."""
    return {as_whole(str(value)): value for value in np.unique(labels).tolist()}


def _coded(labels: ClassLabels, meant: Mapping[str, str], values: Mapping[str, Any]) -> ClassLabels:
    """Return labels as they are meant; one that nobody has written is a number if it is 0 or 1."""
    found = [meant[as_whole(str(value))] for value in labels.tolist()]
    return np.array([values.get(name, int(name) if name in ("0", "1") else name) for name in found])
