"""A server's request to a site, independent of the transport."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field

from fedkin.core import FedkinError
from fedkin.core.replies import is_name


@dataclass(frozen=True)
class Request:
    """Request of a server to a site, without the payload.

    `run` is the token of the run, lower-case hexadecimal; a site keeps a memory for each. `client` is the site's number
    in the run. Exchanges count from 1; `settled` is the one that the server's last checkpoint was made after, beyond
    which it never goes back. `task` is ``module.function``; empty where none is to be done. `classes` are as the run
    numbers them; empty where samples are unlabelled.
    """

    run: str
    client: int
    seed: int
    exchange: int
    settled: int
    task: str
    classes: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """Return the request as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Request:
        """Parse a request from JSON; raise FedkinError if the text is no request."""
        try:
            request = cls(**json.loads(text))
        except (RecursionError, TypeError, ValueError) as error:
            raise FedkinError("The request is not one of fedkin's.", public=True) from error
        if not request._is_typed():
            raise FedkinError("The request is not one of fedkin's.", public=True)
        if not re.fullmatch("[0-9a-f]{1,64}", request.run):
            raise FedkinError("The request's run is not a token of hexadecimal digits.", public=True)
        return request

    def _is_typed(self) -> bool:
        """Return whether all fields have their types; numbers become parts of file names."""
        numbers = (self.client, self.seed, self.exchange, self.settled)
        words = [self.run, *(self.classes if isinstance(self.classes, list) else [None])]
        numbered = all(type(number) is int and number >= 0 for number in numbers)
        return numbered and (self.task == "" or is_name(self.task)) and all(isinstance(word, str) for word in words)
