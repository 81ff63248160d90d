"""Errors with messages for the user: what was probably meant, and how options are named where the user came in."""

from __future__ import annotations

import difflib
import functools
import inspect
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from itertools import islice
from typing import Any, ClassVar, Literal, TypeVar, get_args

_F = TypeVar("_F", bound=Callable[..., Any])


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

    kind: ClassVar[Literal["failed", "refused"]] = "failed"
    """What a client's error is to the server, see `fedkin.core.payload.Failure`."""

    def __init__(self, text: str, public: bool | str = False) -> None:
        super().__init__(text)
        self.public = text if public is True else public or ""


class FedkinWarning(UserWarning):
    """Warning about data that are used, or a fit that goes on, though something is not as expected."""


class RefusalError(FedkinError):
    """Error of a request that a client refuses for good, however often it is repeated."""

    kind = "refused"


class DivergedError(FedkinError):
    """Error of a model whose parameters are not finite or have exploded.

    `what` happened is the beginning of a sentence. `culprits` are the clients whose updates stand out, and how; empty
    if none does, or if it is not known. `called` names a client within a sentence.
    """

    def __init__(
        self, what: str, culprits: Mapping[int, str], called: Callable[[int], str] = "client {}".format
    ) -> None:
        self.what, self.culprits = what, dict(culprits)
        why = listing([f"{called(client)}: {reason}" for client, reason in self.culprits.items()])
        why = why or "no client's update stands out; a lower learning rate, or scaled data, may help"
        super().__init__(f"{what}, so the run stops ({why}).")


def in_short(error: Exception) -> str:
    """Return the type and the first line of an error, without the full stop."""
    first, *_ = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {first}".rstrip(".: ")


def unknown_name(kind: str, name: str, allowed: Iterable[str]) -> FedkinError:
    """Return an error for an unknown name, which suggests the nearest allowed one."""
    return FedkinError(f"Unknown {kind} '{name}'; {suggestion(name, allowed)}")


def no_column(where: str, name: str, columns: Iterable[str]) -> FedkinError:
    """Return an error for a column that a table or data set lacks, which suggests the nearest existing one."""
    return FedkinError(f"{where} has no column '{name}'; {suggestion(name, columns, 'it has ')}")


def suggestion(name: str, allowed: Iterable[str], otherwise: str = "allowed: ") -> str:
    """Return the end of a sentence about an unknown name: the one that may be meant, or all that are allowed."""
    names = sorted(allowed)
    near = nearest(name, names)
    return f"did you mean '{near}'?" if near else f"{otherwise}{listing(names)}."


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name that a word of another library stands for, or else the most similar; ``None`` if none is.

    Names may be paths such as ``"method.module"``, whose last part is what a word stands for.
    """
    names = sorted(allowed)
    ends = {each.rpartition(".")[2]: each for each in names}
    if meant := next((ends[alias] for alias in ALIASES.get(name, ()) if alias in ends), None):
        return meant
    spellings = {each.lower(): each for each in names}
    near = difflib.get_close_matches(name.lower(), spellings, n=1, cutoff=0.6)
    return spellings[near[0]] if near else None


def listing(names: Sequence[str], maximum: int = 20) -> str:
    """Join names by commas: the first `maximum` of them, and how many more there are."""
    shown = ", ".join(names[:maximum])
    return shown if len(names) <= maximum else f"{shown} and {len(names) - maximum:,} more"


def refuse(problems: Iterable[str | FedkinError]) -> None:
    """Raise one error that lists the first fifty problems, one per line, and says if there are more.

    It is public if each of them is, see `FedkinError`; those that are mere texts are not.
    """
    if listed := list(islice(problems, 51)):
        more = "\n... and more." if listed[50:] else ""
        public = [problem.public if isinstance(problem, FedkinError) else "" for problem in listed[:50]]
        raise FedkinError("\n".join(map(str, listed[:50])) + more, "\n".join(public) + more if all(public) else False)


def mid_sentence(where: str) -> str:
    """Return the beginning of a sentence, such as "The table", as it is written within a sentence."""
    return f"the{where[3:]}" if where.startswith("The ") else where


def require(what: str, packages: str, extra: str) -> None:
    """Raise an error, with the command that installs them, if packages that a feature needs are not installed.

    `what` is the feature, as the beginning of a sentence, such as ``"Engine 'flower'"``; `packages` their import names,
    separated by spaces; `extra` fedkin's extra that brings them.
    """
    if absent := [name for name in packages.split() if find_spec(name) is None]:
        raise FedkinError(f"{what} needs {' and '.join(absent)}, not installed here: pip install 'fedkin[{extra}]'.")


ALIASES: dict[str, tuple[str, ...]] = {
    # training, as scikit-learn, PyTorch and papers write it
    **dict.fromkeys(("lr", "eta"), ("learning_rate",)),
    **dict.fromkeys(("epochs", "n_epochs", "E"), ("local_epochs",)),
    **dict.fromkeys(("model", "net", "network"), ("module",)),
    "optim": ("optimizer",),
    "mu": ("proximal",),
    # clusters, rounds and clients
    **dict.fromkeys(("k", "K", "num_clusters", "clusters", "n_clusters"), ("n_clusters", "clusters")),
    **dict.fromkeys(("num_rounds", "n_rounds", "global_rounds", "max_iter"), ("rounds", "num_rounds")),
    **dict.fromkeys(
        (
            "fraction_fit", "fraction_train", "client_fraction", "sample_fraction", "join_ratio", "clients_per_round",
            "participation",
        ),
        ("participation", "fraction_train"),
    ),
    "min_fit_clients": ("min_train_nodes",),
    "min_evaluate_clients": ("min_evaluate_nodes",),
    "min_available_clients": ("min_available_nodes",),
    "fit_metrics_aggregation_fn": ("train_metrics_aggr_fn",),
    "evaluate_metrics_aggregation_fn": ("evaluate_metrics_aggr_fn",),
    # seeds, time and devices
    "seed": ("random_state",),
    "random_state": ("seed",),
    "time": ("budget",),
    # labels, held-out samples and metrics
    **dict.fromkeys(("label", "labels", "target"), ("label", "y")),
    **dict.fromkeys(("val", "valid", "val_set", "dev", "validation_data"), ("validation",)),
    **dict.fromkeys(("test", "test_set", "eval_set", "test_data"), ("eval",)),
    "callback": ("callbacks",),
    # results
    **dict.fromkeys(("to_excel", "to_csv", "to_parquet", "to_pandas", "to_dataframe"), ("to_frame",)),
    **dict.fromkeys(("centroids_", "centers_", "cluster_centers", "means_"), ("cluster_centers_",)),
    **dict.fromkeys(("explain", "feature_importances_"), ("why",)),
    **dict.fromkeys(("partial_fit", "warm_start"), ("update",)),
}  # fmt: skip
"""What options and arguments of other libraries are called here, of which a door has one: the table of all doors."""


def checked_keywords(function: _F) -> _F:
    """Decorate a function so that an unknown keyword raises a `TypeError` that names the nearest known one."""
    parameters = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        for name in keywords:
            if name not in parameters:
                raise TypeError(f"{function.__name__} has no argument '{name}'; {suggestion(name, parameters)}")
        return function(*arguments, **keywords)

    return called  # type: ignore[return-value]


def toml_text(value: Any, blank: str = " ") -> str:
    """Return a value as TOML writes it, on one line, ``None`` as an empty text; `blank` stands beside separators."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        keys = {name: name if re.fullmatch("[A-Za-z0-9_-]+", name) else toml_text(name) for name in value}
        items = (f"{keys[name]}{blank}={blank}{toml_text(item, blank)}" for name, item in value.items())
        return f"{{{f',{blank}'.join(items)}}}"
    return json.dumps(value, ensure_ascii=False, separators=(f",{blank}", f":{blank}"))


# How options are named where a user came in: in a file, in the shell or in Python. Sentences on data are made deep
# inside, and who reads them came by one of several doors. A sentence that names an option is made of `option` or
# `setting`, which name it as the door of the running code does; no finished sentence is ever changed.

Door = Literal["file", "shell", "python"]
FILE, SHELL, PYTHON = get_args(Door)

_door: ContextVar[Door] = ContextVar("door", default="file")


@contextmanager
def at_door(door: Door) -> Iterator[None]:
    """Have sentences name options as this door does; a context manager and decorator."""
    token = _door.set(door)
    try:
        yield
    finally:
        _door.reset(token)


def option(key: str, value: Any = ...) -> str:
    """Return an option of section ``[data]``, or with another section before it, with its value if one is given."""
    door = _door.get()
    if door == SHELL:
        name = key if "." in key else f"data.{key}"
        return name if value is ... else f"--set {shlex.quote(f'{name}={toml_text(value, blank=str())}')}"
    if door == PYTHON:
        name = "y" if key == "label" else key
        # A column's cells are read before fit, which takes DataFrames.
        elsewhere = " where pandas reads the files" * (key in ("decimal", "encoding", "na_values", "sheet"))
        return name if value is ... else f"{name}={value!r}{elsewhere}"
    return key if value is ... else f"{key} = {toml_text(value)}"


def setting(key: str, value: Any) -> str:
    """Return what to do to give an option a value, as a clause without a subject, such as ``set drop = ["x"]``."""
    return f"{'give' if _door.get() == SHELL else 'set'} {option(key, value)}"
