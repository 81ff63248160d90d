"""A task: what a client can be asked to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedkin.core.client import Client
from fedkin.core.payload import Payload

TaskFunction = Callable[[Sequence[Client], Sequence[Payload]], list[Payload]]

_TASKS: dict[str, Task] = {}


@dataclass(frozen=True)
class Task:
    """A named function of many clients at once.

    ``run(clients, payloads)`` returns one reply per client. A client's reply must not depend on who else is in the
    list: a real site calls it with lists of one, the local engine with as many as work fastest together.
    """

    name: str
    run: TaskFunction

    @staticmethod
    def named(name: str) -> Task:
        """The task registered under `name`; how a remote site finds what it is asked to do."""
        return _TASKS[name]


def task(run: TaskFunction) -> Task:
    """Decorator that makes a `Task` of a function and registers it as ``module.function``."""
    made = Task(name=f"{run.__module__}.{run.__name__}", run=run)
    _TASKS[made.name] = made
    return made
