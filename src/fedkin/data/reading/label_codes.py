"""Truth values as labels, which clients write in different ways, such as 0 and 1, no and yes, False and True."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from fedkin.data.reading.dataset import Dataset, in_order
from fedkin.data.reading.values.truth_values import BOOLEANS, BOTH_BOOLEANS, is_enough

_PAIRS = (("0", "1"), *BOOLEANS, *BOTH_BOOLEANS)


def with_one_code(clients: Sequence[Dataset]) -> list[Dataset]:
    """Return the clients with truth values as labels in the way in which most of them are written, as features are.

    Nothing changes if any client has other labels, or all are written in one way. `Dataset.written` has what a client's
    labels were.
    """
    meant = meant_by({str(at): one.classes for at, one in enumerate(clients) if one.y is not None})
    if not meant:
        return list(clients)
    return [_renamed(one, meant) if one.y is not None else one for one in clients]


def meant_by(by_client: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return by label, of all clients, the one that most clients write for it; empty if nothing is to be changed.

    `by_client` has the labels of each client. A client that has a single letter alone says nothing of truth.
    """
    pairs = {client: pair for client, own in by_client.items() if own and (pair := _pair(own)) is not None}
    labels = in_order(name for own in by_client.values() for name in own)
    if not labels or len(pairs) < sum(1 for own in by_client.values() if own):
        return {}
    (common, _), *_ = Counter(pairs.values()).most_common()
    spelt = {
        word: next((name for client, own in by_client.items() if pairs.get(client) == common for name in own
                    if name.casefold() == word), word)
        for word in common
    }  # fmt: skip
    meant = {name: spelt[common[_is_true(name)]] for name in labels}
    return meant if any(name != own for name, own in meant.items()) else {}


def common_classes(by_client: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the classes of clients together, in order; truth values are called as most clients write them."""
    meant = meant_by(by_client)
    return in_order(meant.get(name, name) for own in by_client.values() for name in own)


def as_called(own: Sequence[str], classes: Sequence[str]) -> list[str]:
    """Return a client's labels as they are called among `classes`: truth values as these write them, others as is."""
    if set(own) <= set(classes):
        return list(own)
    meant = meant_by({"all": classes, "own": own})  # of two ways to write them, that of the first counts
    return [meant.get(name, name) for name in own]


def _pair(labels: Sequence[str]) -> tuple[str, str] | None:
    """Return the pair of opposites that a client's labels belong to; ``None`` if there is none."""
    own = {name.casefold() for name in labels}
    whole = next((pair for pair in _PAIRS if own == set(pair)), None)
    alone = ((no, yes) for no, yes in _PAIRS if own < {no, yes} and (no == "0" or is_enough(no, yes)))
    return whole or next(alone, None)


def _is_true(label: str) -> bool:
    return any(label.casefold() == yes for _, yes in _PAIRS)


def _renamed(client: Dataset, meant: Mapping[str, str]) -> Dataset:
    """Return a client with its labels called as `meant` says; two may become one."""
    assert client.y is not None
    own = [meant[name] for name in client.classes]
    if own == client.classes:
        return client
    classes = in_order(own)
    at = torch.tensor([classes.index(name) for name in own], dtype=torch.int64)
    return replace(client, y=at[client.y], classes=classes, written=tuple(client.classes))
