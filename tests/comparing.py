"""Runs of studies in this process, which are counted."""

import math
from collections.abc import Callable
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.progress import Progress
from fedkin.studies.workers import Worker


class Here(Worker):
    """Makes runs in this process; those of the methods in `slow` take too long, those in `broken` fail."""

    def __init__(self, slow: tuple[str, ...] = (), broken: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.slow, self.broken = slow, broken
        self.made: list[str] = []
        self.seconds: list[float] = []

    def call(self, function: Callable[..., Any], *arguments: Any, seconds: float = math.inf) -> Any:
        method = arguments[0]["method"]
        number = method.get("n_clusters")
        given = f"-{number}" if isinstance(number, int) else ""
        self.made.append(f"{method['name']}{given} {arguments[0].get('seed', 0)}")
        self.seconds.append(seconds)
        if method["name"] in self.slow:
            raise TimeoutError
        if method["name"] in self.broken:
            raise FedkinError("no such luck.")
        return function(*arguments, Progress())
