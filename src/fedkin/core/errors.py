"""Errors with messages for the user."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, ClassVar, Literal


class FedkinError(ValueError):
    """Error of bad input, described in one sentence: the value, what is allowed, where it was given.

    The command line prints the sentence and exits with 2; in Python it is a `ValueError`.

    Parameters
    ----------
    text : str
        The sentence, for whoever owns the data.
    public : bool or str
        What may leave a client whose task ends in the error: the sentence itself if true, another one without values
        if that is given. It holds names, kinds and shapes, never a value of a row; by default nothing leaves but the
        error's type, since a sentence may quote a cell.
    """

    kind: ClassVar[Literal["failed", "declined", "refused"]] = "declined"
    """What a client's error is to the server, see `fedkin.core.replies.Failure`."""

    def __init__(self, text: str, public: bool | str = False) -> None:
        super().__init__(text)
        self.public = text if public is True else public or ""


class FedkinWarning(UserWarning):
    """Warning about data that are used, or a fit that goes on, though something is not as expected."""


class RefusalError(FedkinError):
    """Error of a request that a client refuses for good, however often it is repeated."""

    kind = "refused"


class FailedTaskError(FedkinError):
    """Error of a task that ended in an error of its own at a client."""

    kind = "failed"


class DivergedError(FedkinError):
    """Error of a model whose parameters are not finite or have exploded.

    `what` happened is the beginning of a sentence. `culprits` are the clients whose updates stand out, and how; empty
    if none does, or if it is not known.
    """

    def __init__(
        self, what: str, culprits: Mapping[int, str], called: Callable[[int], str] = "client {}".format
    ) -> None:
        self.what, self.culprits = what, dict(culprits)
        why = listing([f"{called(client)}: {reason}" for client, reason in self.culprits.items()])
        why = why or "no client's update stands out; a lower learning rate, or scaled data, may help"
        super().__init__(f"{what}, so the run stops ({why}).")

    def naming(self, called: Callable[[int], str]) -> DivergedError:
        """Return the same error with each client called as `called` names it within a sentence."""
        return DivergedError(self.what, self.culprits, called)


def in_short(error: Exception) -> str:
    """Return the type and the first line of an error, without the full stop."""
    first, *_ = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {first}".rstrip(".: ")


def kind_of(value: object) -> str:
    """Return what a value is, with an article, such as ``a dict`` or ``a numpy array``."""
    if value is None:
        return "None"
    kind = type(value).__name__
    if type(value).__module__ == "numpy":
        return f"a numpy {'array' if kind == 'ndarray' else kind}"
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"


def unknown_name(kind: str, name: str, allowed: Iterable[str]) -> FedkinError:
    """Return an error for an unknown name, which suggests the nearest allowed one."""
    names = sorted(allowed)
    return FedkinError(f"Unknown {kind} '{name}'; {hint(nearest(name, names), f'allowed: {listing(names)}')}")


def no_column(where: str, name: str, columns: Iterable[str]) -> FedkinError:
    """Return an error for a column that a table or data set lacks, which suggests the nearest existing one."""
    names = sorted(columns)
    return FedkinError(f"{where} has no column '{name}'; {hint(nearest(name, names), f'it has {listing(names)}')}")


def hint(near: str | None, otherwise: str) -> str:
    """Return the end of a sentence about an unknown name: "did you mean" the nearest one, or `otherwise`."""
    return f"did you mean '{near}'?" if near else f"{otherwise}."


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name most similar to `name`; ``None`` if none is similar, or several are equally so.

    A compound whose last part is the name, as of Purchase and WeekofPurchase, is something else.
    """
    word, spellings = name.lower(), {each.lower(): each for each in sorted(allowed)}
    near = difflib.get_close_matches(word, spellings, n=2, cutoff=0.6)
    rest = near[0].removesuffix(word) if near else ""
    if not near or (len(rest) >= 3 and rest != near[0] and rest[-1].isalpha()):
        return None
    ratios = {difflib.SequenceMatcher(a=each, b=word).ratio() for each in near}
    return spellings[near[0]] if len(ratios) == len(near) else None


def nearest_few(name: str, names: Collection[str], where: str) -> str:
    """Return the end of a sentence about an unknown name among many: the three most similar, and `where` all are."""
    near = difflib.get_close_matches(name.lower(), sorted(names), n=3, cutoff=0)
    return f"the nearest of {len(names)} are {', '.join(near)}; {where} shows all"


def listing(names: Sequence[str], maximum: int = 20) -> str:
    """Join names by commas: the first `maximum` of them, and how many more there are."""
    shown = ", ".join(names[:maximum])
    return shown if len(names) <= maximum else f"{shown} and {len(names) - maximum:,} more"


def all_problems(problems: Sequence[str | FedkinError]) -> FedkinError:
    """Return one error that lists several problems, one per line, the first fifty of them.

    It is public if each of them is, see `FedkinError`; those that are mere texts are not.
    """
    shown = problems[:50]
    more = [f"... and {len(problems) - 50:,} more problems."] if len(problems) > 50 else []
    public = [problem.public if isinstance(problem, FedkinError) else "" for problem in shown]
    return FedkinError("\n".join([*map(str, shown), *more]), "\n".join([*public, *more]) if all(public) else False)


def refuse(problems: Iterable[str | FedkinError]) -> None:
    """Raise one error for all problems; do nothing if there are none."""
    if listed := list(problems):
        raise all_problems(listed)


def raised_by(check: Callable[..., object], *arguments: Any) -> list[str]:
    """Call a check, and return its error's lines, one per problem; an empty list if it raises nothing."""
    try:
        check(*arguments)
    except FedkinError as error:
        return str(error).splitlines()
    return []


def mid_sentence(where: str) -> str:
    """Return the beginning of a sentence, such as "The table", as it is written within a sentence."""
    return f"the{where[3:]}" if where.startswith("The ") else where


# Optional dependencies, which fedkin's extras install.


def require(what: str, packages: str, extra: str) -> None:
    """Raise an error, with the command that installs them, if packages that a feature needs are not installed.

    `what` is the feature, as the beginning of a sentence, such as ``"Engine 'flower'"``; `packages` their import names,
    separated by spaces; `extra` fedkin's extra that brings them.
    """
    if absent := [name for name in packages.split() if find_spec(name) is None]:
        raise FedkinError(f"{what} needs {' and '.join(absent)}, not installed here: pip install 'fedkin[{extra}]'.")
