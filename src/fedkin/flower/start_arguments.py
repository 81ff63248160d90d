"""Checks of the arguments of a strategy's `start`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from flwr.app import ArrayRecord
from torch import Tensor

from fedkin.core import FedkinError
from fedkin.flower.array_layout import ArrayLayout
from fedkin.flower.terms import Config


def given_models(initial_arrays: ArrayRecord | Sequence[ArrayRecord]) -> tuple[ArrayLayout, Tensor]:
    """Return the layout of the initial models, and the models as vectors ``(m, size)``.

    Raises FedkinError if they are not records of arrays, hold no parameters, or differ in layout.
    """
    given = [initial_arrays] if isinstance(initial_arrays, ArrayRecord) else initial_arrays
    if not isinstance(given, Sequence) or not given or not all(isinstance(one, ArrayRecord) for one in given):
        what = type(initial_arrays).__name__
        if isinstance(given, Sequence):
            what += f" of {type(given[0]).__name__}" if given else ", which is empty"
        raise FedkinError(
            f"initial_arrays is of type {what}; give an ArrayRecord, as in ArrayRecord(model.state_dict()), or a list "
            "of them."
        )
    layout = ArrayLayout.of(given[0])
    return layout, torch.stack([_model(layout, arrays, at) for at, arrays in enumerate(given)])


def checked_rounds(num_rounds: int) -> int:
    """Check the number of rounds, and return it.

    Raises FedkinError if it is below 1, or not a whole number.
    """
    if type(num_rounds) is not int or num_rounds < 1:
        raise FedkinError(f"num_rounds is {num_rounds!r}; allowed: whole numbers from 1.")
    return num_rounds


def seconds(timeout: float | None) -> float:
    """Return the timeout of an exchange in seconds, infinite for ``None``.

    Raises FedkinError if it is not greater than 0.
    """
    if timeout is None:
        return math.inf
    if not isinstance(timeout, int | float) or not timeout > 0:
        raise FedkinError(f"timeout is {timeout!r}; allowed: above 0, in seconds, or None.")
    return float(timeout)


def checked_config(name: str, given: Any) -> Config:
    """Check the configuration for the client app: values, or a function of the round; empty for ``None``.

    Raises FedkinError if it is something else.
    """
    if given is None:
        return {}
    if isinstance(given, Mapping) or callable(given):
        config: Config = given
        return config
    raise FedkinError(
        f"{name} is of type {type(given).__name__}; give a ConfigRecord, or a function that returns one for a round."
    )


def _model(layout: ArrayLayout, arrays: ArrayRecord, at: int) -> Tensor:
    """Flatten the model of `arrays`, item `at` of a list."""
    vector = layout.vector(arrays)
    if isinstance(vector, str):
        raise FedkinError(f"initial_arrays holds models that differ: in that at {at}, {vector}.")
    return vector
