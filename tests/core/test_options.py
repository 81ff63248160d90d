"""Options are read off dataclasses, and everything registered describes each of its own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import pytest
from annotated_types import Ge, Interval, Lt

from fedkin.core.method import Count, options_of
from fedkin.experiment import registry


@dataclass(frozen=True)
class Base:
    """A base.

    Attributes
    ----------
    rounds : int
        Rounds of training.
    low, high : float
        Ends of
        the range.
    """

    rounds: Count = 3
    low: Annotated[float, Ge(0), Lt(1)] = 0.0
    high: Annotated[float, Interval(gt=0, le=1)] | None = None


@dataclass(frozen=True)
class Derived(Base):
    """One thing; over
    two lines.

    More of it.

    Attributes
    ----------
    mode : {"a", "b"}
        How it goes:

        with an empty line.
    rounds : int
        Fewer rounds.

    Examples
    --------
    widths : int
        No option.
    """

    mode: Literal["a", "b"] | Count = "a"
    widths: tuple[Count, ...] = (2, 3)
    names: list[str] = field(default_factory=list)
    oracle: Callable[[int], int] | None = None
    made: int = field(default=0, init=False)
    shared: ClassVar[int] = 1


def test_fields_of_a_class_and_its_bases() -> None:
    found = [(option.name, option.allowed(), option.default_text, option.meaning) for option in options_of(Derived)]
    assert found == [
        ("rounds", "int >= 1", "3", "Fewer rounds."),
        ("low", "float >= 0 and < 1", "0.0", "Ends of the range."),
        ("high", "float > 0 and <= 1", "", "Ends of the range."),
        ("mode", '"a" or "b" or int >= 1', '"a"', "How it goes: with an empty line."),
        ("widths", "list of int >= 1", "[2, 3]", ""),
        ("names", "list of str", "[]", ""),
    ]
    assert options_of(Derived)[2].allowed(repr) == "float > 0 and <= 1 or None"


@pytest.mark.parametrize("kind", ["method", "scenario"])
def test_every_option_is_described(kind: registry.Kind) -> None:
    table = registry.METHODS if kind == "method" else registry.SCENARIOS
    made = {name: registry.resolve(kind, name) for name in table}
    assert [(name, option.name) for name in made for option in options_of(made[name]) if len(option.meaning) < 8] == []
