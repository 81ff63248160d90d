"""Base classes of methods, their states and records; options as a method or a section of a file declares them."""

from __future__ import annotations

import dataclasses
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from operator import getitem
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from annotated_types import Ge, Gt, Interval, Le, Lt

from fedkin.core.errors import FedkinError, suggestion, toml_text

if TYPE_CHECKING:
    from pydantic import ValidationError
    from torch import Tensor

    from fedkin.core.client import Client
    from fedkin.core.federation import Federation, Replies
    from fedkin.core.payload import Payload

Count = Annotated[int, Ge(1)]
Positive = Annotated[float, Gt(0)]
Fraction = Annotated[float, Interval(ge=0, le=1)]
"""Types for hyper-parameters; configurations and estimators check the ranges they carry."""
Oracle = Callable[[int], Sequence[int]]
"""The true class of each local cluster of a client, by its id."""
ServerData = Callable[[str], "Tensor"]
"""Loads samples of the server's own by name or path: ``(n, *shape)``, prepared as the clients' are."""


class Values(TypedDict, total=False):
    """Values that a page and the terminal know in any record; a method's own type, `Method.record_type`, adds others.

    ``phase`` says what a step did; ``note`` and ``warning`` are sentences; ``clusters`` is a number of clusters, and
    ``loss`` a mean.
    """

    phase: str
    note: str
    warning: str
    clusters: int
    loss: float | None


@dataclass(frozen=True)
class Record:
    """Record of a step: one line of ``records.jsonl``.

    Attributes
    ----------
    answered : list of int
        Clients whose replies were used throughout the step.
    missing : dict of int to str
        Clients that failed to give a usable reply at least once, and why.
    values : dict
        Plain JSON values the method reports, as its `Method.record_type` names and types them. A run's page and the
        terminal also show every other number, see `fedkin.report.measures`.
    """

    answered: list[int]
    missing: dict[int, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """State of a method on the server; subclasses add fields that `fedkin.core.payload.pack` can write.

    Attributes
    ----------
    steps : int
        Steps done.
    finished : bool
        Whether the method has come to its own end.
    """

    steps: int = 0
    finished: bool = False

    def next(self, **changes: Any) -> Self:
        """Return the state after one more step, with `changes` applied."""
        return dataclasses.replace(self, steps=self.steps + 1, **changes)

    def tree(self) -> dict[str, Any]:
        """Return the fields by name, ready for `pack`."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Traits:
    """What a method is, for those who list, compare and run methods; nothing asks for its name or class.

    Attributes
    ----------
    clusters : {"samples", "clients"} or None
        What it clusters. A method of samples has the functions of
        `fedkin.methods.samples.sample_method.SampleMethod`, one of clients those of
        `fedkin.methods.clients.client_method.ClientMethod`. With ``None`` nothing is evaluated.
    finds_k : bool
        Whether it finds the number of clusters, or forms none; if `takes_k`, with ``n_clusters`` "auto" or ``None``.
    takes_k : bool
        Whether ``n_clusters`` sets the number of clusters it finds.
    moves_data : bool
        Whether samples leave their clients; `Method.sends_samples` says it of one instance.
    copies_data : bool
        Whether synthetic samples leave their clients, which can repeat real ones.
    baseline : bool
        Whether it is there to compare with: it clusters all samples in one place, or forms no clusters.
    cost : {"cheap", "costly"}
        Whether a comparison tries many numbers of clusters with it, or the likeliest only.
    has_device : bool
        Whether its networks, or its searches of many points, compute on `fedkin.core.device.device`.
    scenario : str
        The scenario it is tried on by default.
    sums_suffice : mapping or None
        Settings with which sums over clients are all it needs, several allowed values in a tuple; ``None`` if it always
        needs more.
    paper : mapping
        Options that make it the paper's, or its published code's, by ``variant = "paper"``; empty where the defaults
        are that already.
    """

    clusters: Literal["samples", "clients"] | None = None
    finds_k: bool = False
    takes_k: bool = True
    moves_data: bool = False
    copies_data: bool = False
    baseline: bool = False
    cost: Literal["cheap", "costly"] = "costly"
    has_device: bool = False
    scenario: str = "label-skew"
    sums_suffice: Mapping[str, Any] | None = None
    paper: Mapping[str, Any] = field(default_factory=dict)

    def replace(self, **changes: Any) -> Traits:
        """Return the traits of a subclass: the same but for `changes`, without `baseline`, `sums_suffice` and `paper`.

        A subclass may form clusters where its base forms none, and need more than its base.
        """
        return dataclasses.replace(self, **{"baseline": False, "sums_suffice": None, "paper": {}, **changes})

    def form(self, options: Mapping[str, Any]) -> str:
        """Return "the paper's form" or "fedkin's form", which these options give; empty where they are the same."""
        is_papers = options.get("variant") == "paper" or all(options.get(key) == self.paper[key] for key in self.paper)
        return "" if not self.paper else "the paper's form" if is_papers else "fedkin's form"


class Method(ABC, Generic[S]):
    """A federated algorithm as a frozen dataclass of hyper-parameters.

    It reaches clients only through the federation and never sees ground truth. What only some methods can do are the
    protocols below, such as `CanForget`: a method that has their functions can do it.

    Attributes
    ----------
    state_type : type
        Class of its states.
    record_type : type
        Type of its records' values, a `TypedDict` with the name and type of each; by default `Values`.
    traits : Traits
        What it is. A subclass without any has those of its base by `Traits.replace`.
    """

    state_type: ClassVar[type[State]]
    record_type: ClassVar[type[Any]] = Values
    traits: ClassVar[Traits] = Traits()

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "traits" not in vars(cls):
            cls.traits = cls.traits.replace()

    @abstractmethod
    def init(self, fed: Federation) -> S:
        """Prepare the clients and return the first state."""

    @abstractmethod
    def step(self, fed: Federation, state: S) -> tuple[S, Record]:
        """Do one iteration; `fed` and `state` are all it may depend on."""

    @abstractmethod
    def result(self, state: S) -> dict[str, Any]:
        """Return what the method found, as a tree of tensors and plain values."""

    def check_clients(self, fed: Federation) -> None:
        """Raise FedkinError if `init` would refuse what the clients hold; it trains nothing and takes no time.

        A dry run calls it on a federation that is not used afterwards.
        """

    def conclude(self, fed: Federation, state: S) -> Replies[Payload] | None:
        """Send clients what they need of the last state, such as the clusters of their samples; return their replies.

        The last step calls it, and so does a run that ends early because its target is reached.
        """

    def sends_samples(self) -> bool:
        """Whether samples leave their clients with these hyper-parameters."""
        return self.traits.moves_data

    @classmethod
    def figures(cls, records: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        """Return what a run's page shows besides what it shows of any run: `fedkin.report.figures`, by default none.

        `records` are the lines of ``records.jsonl``.
        """
        return ()

    def is_private(self) -> bool:
        """Whether all that clients send is covered by a privacy guarantee, with these hyper-parameters."""
        return False

    def guards_samples(self) -> bool:
        """Whether messages are differentially private for one sample, so that no sample may change others before."""
        return self.is_private()

    def for_embeddings(self, encoder: str) -> Self:
        """Return the method for samples that an encoder of this fingerprint has encoded, or none, ""."""
        return self

    def with_server_data(self, read: ServerData) -> Self:
        """Return the method; where its server has samples of its own, with `read` to load them."""
        return self

    def encodes_samples(self) -> bool:
        """Whether samples are turned into embeddings first, for which they are taken as they are."""
        return False

    def shared_with(self, declared: type[Any]) -> dict[str, Any]:
        """Return the hyper-parameters that another dataclass has, too, by name in its order."""
        names = {field.name for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(declared) if field.name in names}


# What only some methods can do.


@runtime_checkable
class CanPredict(Protocol):
    """Assigns new samples to clusters."""

    def predict(self, result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Return the clusters of samples ``(n, *shape)``, int64 ``(n,)``; a ``staticmethod``."""


@runtime_checkable
class CanCut(Protocol):
    """Cuts the clusters of a finished run again, coarser or finer."""

    def before_cut(self, state: Any) -> Any:
        """Return the finished `state` as before its last step, which cuts as ``n_clusters`` or ``resolution`` say.

        The step asks clients for nothing.
        """


@runtime_checkable
class CanForget(Protocol):
    """Leaves a client out of a finished run without asking the others again.

    By other methods, clients are forgotten by running again without them.
    """

    def without(self, state: Any, clients: Collection[int]) -> Any:
        """Return a finished run's `state` before the last step, with the contributions of `clients` removed.

        The step then forms clusters of what the others have sent already, and asks them for nothing. ``None`` where
        what they sent cannot be separated from what others did. Raises FedkinError if nothing would be left.
        """

    def remains(self) -> str:
        """Return what remains in the state of a client that is left out, in words; empty if nothing does."""


class Nodes(NamedTuple):
    """Groups of samples as the server has them, which a map shows where samples stay at their clients.

    Of m groups: `centroids`, float32 ``(m, d)``, are where `embed` puts samples; `counts` and `clusters`, int64
    ``(m,)``, the samples and the cluster of each; `confidence`, float32 ``(m,)``; and `owners`, int64 ``(m,)``, the
    client of each, -1 where it is of several. `cuts`, int64 ``(s, m)``, are the clusters at coarser and finer scales,
    fewest first, and `stabilities` those of the scales; both may be empty. `means`, float32 ``(m, width)``, are those
    of the prepared columns; of width 0 where the space does not tell them.
    """

    centroids: Tensor
    counts: Tensor
    clusters: Tensor
    confidence: Tensor
    owners: Tensor
    cuts: Tensor
    stabilities: Sequence[float | None]
    means: Tensor


@runtime_checkable
class HasNodes(Protocol):
    """Has groups of samples at the server."""

    def nodes(self, state: Any) -> Nodes:
        """Return the groups of a finished run's `state`."""


@runtime_checkable
class SendsBits(Protocol):
    """Has clients send bits, some of them flipped, which can be attacked."""

    def true_bits(self, client: Client, result: Mapping[str, Any]) -> Tensor:
        """Return the bits ``(segments, width)`` of a client before any flip; a ``staticmethod``."""


@runtime_checkable
class LinksLocalClusters(Protocol):
    """Associates local clusters, which clients keep as ``state["labels"]``."""

    def with_oracle(self, oracle: Oracle) -> Any:
        """Return the method; an upper bound gets the `oracle` that knows the truth, from the evaluation alone."""


def refuse_unused(method: Any, unused: Mapping[str, str]) -> None:
    """Raise FedkinError if an option that has no effect differs from its default.

    `unused` are such options of `method`, an instance, and beside what they have none, as the end of a sentence.
    """
    for option in dataclasses.fields(method):
        if option.name in unused and (value := getattr(method, option.name)) != option.default:
            raise FedkinError(f"{option.name} is {value!r}, but it has no effect {unused[option.name]}; leave it out.")


def allowed_for_sums(method: type[Method[Any]]) -> dict[str, tuple[Any, ...]]:
    """Return the values of hyper-parameters, by name, with which sums over clients are all that a method needs."""
    settings = method.traits.sums_suffice or {}
    return {name: values if isinstance(values, tuple) else (values,) for name, values in settings.items()}


_hints: Callable[..., dict[str, Any]] = cache(get_type_hints)  # which took two thirds of a configuration's time


def hints_of(declared: type[Any]) -> dict[str, Any]:
    """Return the types of a class's fields, with ranges."""
    return _hints(declared, include_extras=True)


def display_name(method: type[Any]) -> str:
    """Return a method's name in sentences: ``KFed`` for `KFedMethod`, which is also its estimator's name."""
    return method.__name__.removesuffix("Method")


# Options as they are declared, by a dataclass or a section: name, type, range, default and meaning, read once.


_BOUNDS = ((Gt, "gt", ">"), (Ge, "ge", ">="), (Lt, "lt", "<"), (Le, "le", "<="))


@dataclass(frozen=True)
class Option:
    """An option that a user can set.

    Its `kind` is its type, with the range it carries; its `default` is `dataclasses.MISSING` if it must be given. Its
    `meaning` is the description from the docstring, on one line, with code in single backticks; empty if there is none.
    """

    name: str
    kind: Any
    default: Any
    meaning: str

    def allowed(self, spell: Callable[[Any], str] = toml_text) -> str:
        """Return allowed types and ranges in words, such as ``int >= 1 or "auto"``, with values as `spell` writes."""
        return " or ".join(filter(None, _allowed(self.kind, spell)))

    @property
    def default_text(self) -> str:
        """The default as TOML writes it; empty if there is none, or it is ``None``, which an absent key says."""
        return "" if self.default is dataclasses.MISSING else toml_text(self.default)


_VARIANT = Option(
    "variant",
    Literal["fedkin", "paper"],
    "fedkin",
    "Whose form options have that are not given: fedkin's defaults, or what the method's paper, or its published code, "
    "has where it differs. In Python an option at its default is not given.",
)


def options_of(declared: type[Any]) -> list[Option]:
    """Return the options of a dataclass, or of a pydantic model, in the order of its fields; a method's `variant` last.

    Fields that take a function are no options, as only Python can give them.
    """
    kinds, meanings = hints_of(declared), meanings_of(declared)
    if dataclasses.is_dataclass(declared):
        factories = {field.name: field.default_factory for field in dataclasses.fields(declared)}
        defaults = {field.name: field.default for field in dataclasses.fields(declared) if field.init}
        made = {name: factories[name] for name in defaults if factories[name] is not dataclasses.MISSING}
        defaults |= {name: factory() for name, factory in made.items()}  # type: ignore[operator]
    else:
        defaults = {name: field.get_default(call_default_factory=True) for name, field in declared.model_fields.items()}
    options = [
        Option(name, kinds[name], default, meanings.get(name, ""))
        for name, default in defaults.items()
        if not any(get_origin(part) is Callable for part in (kinds[name], *get_args(kinds[name])))
    ]
    has_variant = hasattr(declared, "traits") and _VARIANT.name not in defaults
    return [*options, _VARIANT] if has_variant else options


def _allowed(kind: Any, spell: Callable[[Any], str], bounds: Sequence[Any] = ()) -> list[str]:
    """Return what a type allows, one text for each member of a union; a number with its range."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _allowed(parts[0], spell, parts[1:])
    if origin in (Union, UnionType):
        return [text for part in parts for text in _allowed(part, spell)]
    if origin is Literal:
        return [spell(value) for value in parts]
    if kind is NoneType:
        return [spell(None)]
    if origin in (list, tuple):
        return [f"list of {' or '.join(_allowed(parts[0], spell))}"]
    sides = [
        f"{sign} {limit}"
        for bound in bounds
        for kind_of_bound, side, sign in _BOUNDS
        if isinstance(bound, (kind_of_bound, Interval)) and (limit := getattr(bound, side)) is not None
    ]
    return [" ".join([getattr(origin or kind, "__name__", str(kind)), " and ".join(sides)]).rstrip()]


def meanings_of(declared: type[Any]) -> dict[str, str]:
    """Return the ``Attributes`` descriptions of a class and its bases, by name; the class overrides its bases."""
    meanings: dict[str, str] = {}
    for base in reversed(declared.__mro__):
        for head, lines in section_entries(inspect.cleandoc(base.__doc__ or ""), "Attributes"):
            names = head.partition(" : ")[0].split(", ")
            meanings |= dict.fromkeys(names, " ".join(lines.split()).replace("``", "`"))
    return meanings


def section_entries(text: str, title: str) -> list[tuple[str, str]]:
    """Return the entries of one section of a numpydoc docstring: heads, such as ``a, b : float``, and their lines."""
    pieces = re.split(
        r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE
    )  # text before the first section, titles and bodies
    body = dict(zip(pieces[1::2], pieces[2::2], strict=True)).get(title, "")
    return re.findall(r"^(\S.*)\n((?:(?:[ ].*)?\n)*)", body + "\n", re.MULTILINE)


def validation_sentence(
    error: ValidationError,
    values: Any,
    allowed: Iterable[str],
    place: str,
    places: Mapping[str, str] | None = None,
    depth: int | None = None,
) -> FedkinError:
    """Return pydantic's first complaint as an error of one sentence; unknown keys come before anything else.

    `values` are the validated tables and lists, and `allowed` the paths of their keys; the nearest to an unknown one is
    suggested. `place` says where they were given, such as "in FILE", and `places` the same of single keys, by path or
    section. Below the `depth` of the keys, pydantic names branches of a union and positions in a list.
    """
    problems = error.errors(include_url=False)
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    key = first["loc"][:depth]
    path = ".".join(map(str, key))
    place = (places or {}).get(path, (places or {}).get(path.split(".")[0], place))
    if first["type"] == "extra_forbidden":
        section, _, name = path.rpartition(".")
        near = [each for each in allowed if "." not in each or each.startswith(f"{section}.")]
        return FedkinError(f"Unknown key {place}: '{path}'; {suggestion(name, near)}")
    if first["type"] == "missing":
        return FedkinError(f"'{path}' has no default; give it {place}.")
    try:
        value = reduce(getitem, key, values)
    except KeyError:  # a default that its own type does not allow
        value, place = first["input"], "by default"
    # Pydantic says "Input should be ..." or "List should have ...", of each branch of a union.
    rules = [problem["msg"].partition(" should ")[2] for problem in problems if problem["loc"][:depth] == key]
    rule = " or ".join(dict.fromkeys(rules)) or first["msg"]
    return FedkinError(f"'{path}' is {value!r} {place}; it should {rule}.")
