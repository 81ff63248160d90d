"""Tasks: the named functions that clients can be asked to run, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, overload

from fedkin.core.client import Client
from fedkin.core.errors import FedkinError, RefusalError, in_short
from fedkin.core.payload import Expected, Failure, Payload, detached, objection, refusal

_trusted: ContextVar[tuple[Sequence[str] | None, str, Callable[[Task], None]]]
_trusted = ContextVar("trusted", default=(None, "", lambda task: None))
"""The arguments of `trusted_packages`: what a client does and imports when a server names tasks, models or features."""


@contextmanager
def trusted_packages(
    packages: Sequence[str] | None,
    why: str = "so this client does not run it",
    check: Callable[[Task], None] = lambda task: None,
) -> Iterator[None]:
    """Allow imports by name only from these packages inside the context; ``None`` allows all.

    `why` is the end of the sentence that refuses another. `check` is called with every task that is looked up by name,
    and raises RefusalError if it is not to be done.
    """
    token = _trusted.set((packages, why, check))
    try:
        yield
    finally:
        _trusted.reset(token)


def named_module(name: str) -> ModuleType:
    """Import a module by name; raise RefusalError if its package is not trusted, and whatever the import raises.

    A ``__main__`` is a program, which importing would run; it is refused.
    """
    packages, why, _ = _trusted.get()
    if "__main__" in name.split(".")[1:]:
        raise RefusalError(f"'{name}' is a program, {why or 'which importing would run'}.")
    if packages is not None and name.split(".")[0] not in packages:
        raise RefusalError(f"'{name}' is not from {' or '.join(packages)}, {why}.", public=True)
    return import_module(name)


def named_object(path: str, what: str) -> Any:
    """Import the object that ``package.module:attribute`` names, if its package is trusted.

    `what` says what it stands for, as the beginning of a sentence: ``Method``. Raises FedkinError if its module is not
    trusted here, or it cannot be imported.
    """
    module, _, attribute = path.partition(":")
    try:
        return getattr(named_module(module), attribute)
    except FedkinError:
        raise
    except Exception as error:  # whatever the user's own file raises
        raise FedkinError(
            f"{what} '{path}' cannot be imported, as 'package.module:name' of an installed package or of PYTHONPATH: "
            f"{in_short(error)}.",
            public=f"{what} '{path}' cannot be imported there; its log says more.",
        ) from error


TaskFunction = Callable[[Sequence[Client], Sequence[Payload]], list[Payload]]
ClientFunction = Callable[[Client, Payload], Payload]
BlockFunction = Callable[[Any, Payload], Mapping[str, Any]]
"""Does a task for all clients of a `fedkin.core.client_array.Block` with the same payload.

It returns the entries of their replies, as `fedkin.core.client_array.ArrayReplies` has them.
"""

Fewest = Literal["one", "none", "noise", "extremes", "least", "members", "min_members"]

_TASKS: dict[str, Task] = {}


@dataclass(frozen=True)
class Task:
    """A named function that runs at clients, many at once.

    ``run(clients, payloads)`` returns one reply per client. A client's reply must not depend on who else is in the
    list: a real client calls it with lists of one, the local engine with as many as work fastest together.

    Attributes
    ----------
    name : str
        ``module.function``.
    run : callable
    takes : mapping or None
        Specification of a payload, see `fedkin.core.payload`, checked at the client before the task runs; ``None`` if
        it is not checked. A server may be of another version, broken, or worse, too.
    holds : mapping of str to shape or callable
        Entries of a reply, some of them `fedkin.core.payload.Optional`; the caller may expect more.
    may_be_empty : bool
        Whether a reply may be empty, from a client that has nothing to send.
    moves_data : bool
        Whether the task sends samples off the client, as centralised baselines do; such tasks run in simulations only.
    accounted : bool
        Whether its replies reveal about samples only what `Client.reserve` accounts for; a client with a privacy budget
        does no other task.
    sends : str
        What its replies tell, for a reader who does not compute, without a full stop; empty if it replies nothing.
    fewest : str
        How few rows can be behind a number of a reply: "one"; "none", of what is of no row; "noise", which hides each;
        "extremes", smallest and largest values, which are of one; or the entry of the payload, or the option, that says
        how many it takes: "least", "members" or "min_members".
    one_by_one : bool
        Whether the function is one of a single client, so that clients gain nothing from being handed over together.
    block, pool : callable or None
        Functions that do the task for a `fedkin.core.client_array.Block` of clients at once. `block` has a reply of
        each, that of `run` but for rounding; `pool` one reply of all: the sum of theirs, or what their samples together
        would give, for methods that add replies up, see `fedkin.core.federation.Federation.pools`.
    """

    name: str
    run: TaskFunction
    takes: Expected | None = None
    holds: Expected = field(default_factory=dict)
    may_be_empty: bool = False
    moves_data: bool = False
    accounted: bool = False
    sends: str = ""
    fewest: Fewest = "one"
    one_by_one: bool = False
    block: BlockFunction | None = None
    pool: BlockFunction | None = None

    def objection(self, payload: Payload) -> str | None:
        """Return why the task must not be done with a payload, naming the entry; ``None`` if it may."""
        return None if self.takes is None else objection(payload, self.takes)

    def refusal(self, reply: Payload, expected: Expected | None = None) -> Failure | None:
        """Return why a reply must not be used, or ``None`` if it may; `expected` is what else it must contain."""
        if self.may_be_empty and not reply:
            return None
        return refusal(reply, self.holds, expected or {})


@overload
def task(run: TaskFunction, /) -> Task: ...


@overload
def task(**declared: Any) -> Callable[[TaskFunction], Task]: ...


def task(run: TaskFunction | None = None, /, **declared: Any) -> Task | Callable[[TaskFunction], Task]:
    """Decorate a function to make it a `Task`, registered as ``module.function``.

    What is declared are attributes of `Task`; with any of it the decorator is written with parentheses. Raises
    ValueError if the task is accounted for and does not say what it takes: no budget holds for an unchecked payload.
    """
    return _registered(run, declared, False) if run else lambda run: _registered(run, declared, False)


@overload
def client_task(run: ClientFunction, /) -> Task: ...


@overload
def client_task(**declared: Any) -> Callable[[ClientFunction], Task]: ...


def client_task(
    run: ClientFunction | None = None, /, *, pools: bool = False, **declared: Any
) -> Task | Callable[[ClientFunction], Task]:
    """As `task`, of a function of one client and its payload: many clients do it one after another.

    With `pools` the reply of clients together is that of one with the rows of all.
    """

    def registered(run: ClientFunction) -> Task:
        @wraps(run)
        def in_turn(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
            return [run(client, payload) for client, payload in zip(clients, payloads, strict=True)]

        of_rows = {"pool": lambda block, payload: run(block.as_one(), payload)} if pools else {}
        return _registered(in_turn, {**declared, **of_rows}, True)

    return registered if run is None else registered(run)


def _registered(run: TaskFunction, declared: Mapping[str, Any], one_by_one: bool) -> Task:
    name = f"{run.__module__}.{run.__name__}"
    if declared.get("accounted") and declared.get("takes") is None:
        raise ValueError(f"Task '{name}' is accounted for, so it must declare its payload with 'takes'.")
    _TASKS[name] = Task(name, run, **declared, one_by_one=one_by_one)
    return _TASKS[name]


def known_task(name: str) -> Task:
    """Return the task of this name, and import its module; raise FedkinError if it is not trusted or not there."""
    try:
        named_module(name.rpartition(".")[0])
        task = _TASKS[name]
    except FedkinError:
        raise
    except (ImportError, KeyError, TypeError, ValueError, SystemExit) as error:  # SystemExit: the module is a script
        raise FedkinError(
            f"Task '{name}' is not known here; client and server need the same version of fedkin.", public=True
        ) from error
    _, _, check = _trusted.get()
    check(task)
    return task


def run_task(task: Task, clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Run a task, and return its replies, one for each client, whose tensors require no gradient.

    Raises RefusalError if there are not as many: doing it again would not change that.
    """
    replies = task.run(clients, payloads)
    if not isinstance(replies, list | tuple) or len(replies) != len(clients):
        sentence = f"Task '{task.name}' should return a list with one reply per client, {len(clients)} here."
        raise RefusalError(sentence, public=True)
    return [detached(reply) for reply in replies]
