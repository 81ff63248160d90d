"""Containers with one item per client, found by position and by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any, SupportsIndex, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedkin.core.errors import FedkinError, unknown_name
from fedkin.data.inputs.federation_input import as_given, holds_several, is_named, named_data


def of_each(given: Any, function: Callable[[Any, str], Any], where: str) -> Any:
    """Apply `function` to one client's samples, or to those of several clients in a list or dict.

    It takes a client's samples, and their name in error messages, which is `where` for those of a single client.
    """
    if isinstance(given, Mapping) and (numbers := [key for key, one in given.items() if isinstance(one, Number)]):
        raise FedkinError(
            f"{where} is a dict with a number for '{numbers[0]}', as a single row has, and not with clients by name; "
            "give the row as a DataFrame, pandas.DataFrame([row])."
        )
    if not holds_several(given):
        return function(given, where)
    called = "Client '{}'" if is_named(given) else "Client {}"
    found = {name: function(own, called.format(name)) for name, own in named_data(given, "predict").items()}
    return as_given(found, given)


def fitted_position(client: Any, names: Sequence[str]) -> int:
    """Return the position of a client among those of `fit`, by its name or from its position.

    Raises FedkinError if there is no such client; for a name, the message suggests the nearest one.
    """
    if isinstance(client, str):
        if client not in names:
            raise unknown_name("client", client, names)
        return names.index(client)
    if not is_position(client, len(names)):
        raise FedkinError(no_client(client, names))
    return int(client)


def is_position(value: Any, count: int) -> bool:
    """Return whether a value is a whole number from 0 to below `count`; truth values are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) < count


def no_client(at: object, names: Sequence[str]) -> str:
    """Return the sentence on a number that is the position of no client, for there may be one of this name."""
    at = at.item() if isinstance(at, np.generic) else at
    called = f"; '{at}', in quotation marks, is the client of this name" if str(at) in names else ""
    return f"client is {at!r}; numbers are positions, 0 to {len(names) - 1}, in the order of fit{called}."


class ByClient(list[Any]):
    """List with one item per client, also found by the clients' names; a number is a position.

    Examples
    --------
    >>> found = ByClient([3, 4], ["north", "south"])
    >>> found[1], found["south"], dict(found)
    (4, 4, {'north': 3, 'south': 4})
    """

    def __init__(self, values: Iterable[Any] = (), names: Iterable[str] = ()) -> None:
        super().__init__(values)
        self.names = list(names)

    def __getitem__(self, at: SupportsIndex | slice | str) -> Any:
        try:
            return super().__getitem__(fitted_position(at, self.names) if isinstance(at, str) else at)
        except IndexError:
            raise IndexError(no_client(at, self.names)) from None

    def __contains__(self, item: object) -> bool:
        """Return whether a text is a client's name, or the list has something else, which may be an array."""
        if isinstance(item, str):
            return item in self.names
        return any(one is item or bool(np.array_equal(one, cast(Any, item))) for one in self)

    def keys(self) -> list[str]:
        """Return the clients' names."""
        return list(self.names)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Return pairs of name and item."""
        return iter(zip(self.names, self, strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return ByClient, (list(self), self.names)


class NumbersByClient(np.ndarray):
    """Array with one number per client, also found by the clients' names; a number is a position.

    Results computed from it, and slices of it, are arrays without names.

    Examples
    --------
    >>> found = NumbersByClient([0, 1], ["north", "south"])
    >>> int(found["south"]), found
    (1, array([0, 1]))
    """

    names: list[str]

    def __new__(cls, values: ArrayLike, names: Iterable[str]) -> NumbersByClient:
        made = np.array(values).view(cls)
        made.names = list(names)
        return made

    def __array_finalize__(self, other: Any) -> None:
        self.names = []

    def __getitem__(self, at: Any) -> Any:
        try:
            return super().__getitem__(fitted_position(at, self.names) if isinstance(at, str) else at)
        except IndexError:
            if self.names and isinstance(at, int | np.integer):
                raise IndexError(no_client(at, self.names)) from None
            raise

    def __repr__(self) -> str:
        return repr(self._plain())

    def __reduce__(self) -> tuple[Any, ...]:
        return NumbersByClient, (self._plain(), self.names)

    def __deepcopy__(self, memo: Any) -> NumbersByClient:
        return NumbersByClient(self._plain(), self.names)

    def _plain(self) -> NDArray[Any]:
        return np.asarray(self).view(np.ndarray)
