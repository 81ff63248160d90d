"""Errors with messages for the user: what was probably meant, and how options are named where the user came in."""

from __future__ import annotations

import difflib
import functools
import inspect
import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, ClassVar, Literal, TypeVar

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
    ratios = {difflib.SequenceMatcher(a=each, b=word).ratio() for each in near}
    rest = near[0].removesuffix(word) if near else ""
    if not near or len(ratios) < len(near) or (len(rest) >= 3 and rest != near[0] and rest[-1].isalpha()):
        return None
    return spellings[near[0]]


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
    more = [f"... and {len(problems) - 50:,} more problems."] if len(problems) > 50 else []
    public = [problem.public if isinstance(problem, FedkinError) else "" for problem in problems[:50]]
    text = "\n".join([*map(str, problems[:50]), *more])
    return FedkinError(text, "\n".join([*public, *more]) if all(public) else False)


def refuse(problems: Iterable[str | FedkinError]) -> None:
    """Raise one error for all problems; do nothing if there are none."""
    if listed := list(problems):
        raise all_problems(listed)


def raised_by(check: Callable[..., object], *arguments: Any) -> list[str]:
    """Return the lines of the error that a check raises, one per problem; an empty list if it raises nothing."""
    try:
        check(*arguments)
    except FedkinError as error:
        return str(error).splitlines()
    return []


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
    **dict.fromkeys(("k", "K", "num_clusters", "clusters"), ("n_clusters",)),
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
    **dict.fromkeys(("seed", "random_state"), ("random_state", "seed")),
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


def meant_by(word: str, names: Collection[str]) -> str | None:
    """Return the one of `names` that a word of another library stands for, or else the nearest; ``None`` if none is.

    Names may be paths such as ``"method.module"``, of which the last part counts.
    """
    ends = {name.rpartition(".")[2]: name for name in sorted(names)}
    aliases = (ends[alias] for alias in ALIASES.get(word, ()) if alias in ends and alias != word)
    return next(aliases, None) or nearest(word, names)


def checked_keywords(function: _F) -> _F:
    """Decorate a function so that an unknown keyword raises a `TypeError` that names the nearest known one."""
    parameters = [name for name in inspect.signature(function).parameters if name != "self"]
    options = "; options of methods are settings={'method.NAME': ...}" if "settings" in parameters else ""

    @functools.wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        for name in keywords:
            if name not in parameters:
                end = hint(meant_by(name, parameters), f"it takes {', '.join(parameters)}{options}")
                raise TypeError(f"{function.__name__} has no argument '{name}'; {end}")
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
# inside, and who reads them came by one of several doors. A sentence that names an option is made of `option`,
# `setting` or `flag`, which name it as the door of the running code does; no finished sentence is ever changed.


class Door:
    """Door of those who write files: an experiment's, or a site's own. Keys of section ``[data]`` stand alone.

    `verb` is what a user does with an option, and `place` where settings beside those of a file are given.
    """

    verb = "set"
    place = "on the command line"

    def name(self, key: str) -> str:
        """Return the name of an option."""
        return key

    def given(self, key: str, value: Any) -> str:
        """Return an option with a value."""
        return f"{key} = {toml_text(value)}"

    def flag(self, name: str) -> str:
        """Return the name of an option of a command or argument of a function; ``set`` stands for any setting."""
        return f"--{name}"


class Shell(Door):
    """Door of commands that take ``--set``, and of those on new rows, which take `flags` for reading as well."""

    verb = "give"

    def __init__(self, *flags: str) -> None:
        self._flags = flags

    def name(self, key: str) -> str:
        return key if "." in key else f"data.{key}"

    def given(self, key: str, value: Any) -> str:
        if not isinstance(value, str):
            return f"--set {shlex.quote(f'{self.name(key)}=' + toml_text(value, blank=''))}"  # one line without blanks
        start = f"--{key} " if key in self._flags else f"--set {self.name(key)}="
        # Also quoted where a sign would be taken for the sentence's.
        return start + (value if value.isalnum() else "'" + value.replace("'", "'\"'\"'") + "'")


class Python(Door):
    """Door of estimators, which take DataFrames: files are read by pandas, with its options."""

    def name(self, key: str) -> str:
        return {"label": "y", "sheet": "sheet_name"}.get(key, key)

    def given(self, key: str, value: Any) -> str:
        by_pandas = key in ("decimal", "encoding", "na_values", "sheet")
        return f"{self.name(key)}={value!r}{' where pandas reads the files' * by_pandas}"


class Compare(Door):
    """Door of `fedkin.compare`, which takes files and has settings."""

    place = "in settings"

    def name(self, key: str) -> str:
        return "y" if key == "label" else f"{SHELL.name(key)} in settings"

    def given(self, key: str, value: Any) -> str:
        return f"y={value!r}" if key == "label" else f"settings={{{SHELL.name(key)!r}: {value!r}}}"

    def flag(self, name: str) -> str:
        return {"clusters": "n_clusters", "set": "settings"}.get(name, name)


FILE, SHELL, NEW_ROWS, PYTHON, COMPARE = Door(), Shell(), Shell("decimal", "encoding", "sheet"), Python(), Compare()

_door: ContextVar[Door] = ContextVar("door", default=FILE)
current_door = _door.get


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
    return _door.get().name(key) if value is ... else _door.get().given(key, value)


def setting(key: str, value: Any) -> str:
    """Return what to do to give an option a value, as a clause without a subject, such as ``set drop = ["x"]``."""
    return f"{_door.get().verb} {option(key, value)}"


def flag(name: str) -> str:
    """Return how a command's option, or a function's argument, is called: ``--seeds`` or ``seeds``."""
    return _door.get().flag(name)
