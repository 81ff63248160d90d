"""Policy of a site: rules of its own for what it does for any server, checked before each reply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from fedkin.core import Payload, Task
from fedkin.core.errors import RefusalError
from fedkin.core.payload import owned, to_bytes


@dataclass(frozen=True)
class Policy:
    """Rules of a site that the server learns of by refusals alone, each of which names the rule and nothing else.

    `allows` says whether a task may be done at all, also for a secure sum; the rule is ``methods``. Without `extremes`
    tasks are refused that reveal a column's exact minimum and maximum to the server, see `fedkin.core.tasks.Task`; in a
    secure sum they do not. `max_reply_bytes` is the largest reply, as it is sent. After the day `valid_until`, in UTC,
    nothing is answered.

    Floors for the size of groups and the privacy budget are with the client, see `fedkin.engines.site.Site`.
    """

    allows: Callable[[Task], bool] = lambda task: True
    extremes: bool = True
    max_reply_bytes: int | None = None
    valid_until: date | None = None

    def check_date(self) -> None:
        """Raise RefusalError if the policy is over."""
        if self.valid_until is not None and datetime.now(UTC).date() > self.valid_until:
            raise _refusal("valid_until")

    def check_allowed(self, task: Task) -> None:
        """Raise RefusalError if the task is not of an allowed method."""
        if not self.allows(task):
            raise _refusal("methods")

    def check_extremes(self, task: Task) -> None:
        """Raise RefusalError if the task's own reply, which is not part of a secure sum, reveals what it must not."""
        if task.extremes and not self.extremes:
            raise _refusal("extremes")

    def check_reply(self, reply: Payload) -> None:
        """Raise RefusalError if a reply is larger than the site sends."""
        if self.max_reply_bytes is not None and len(to_bytes(owned(reply))) > self.max_reply_bytes:
            raise _refusal("max_reply_bytes")


def _refusal(rule: str) -> RefusalError:
    return RefusalError(f"The site's policy refuses this: {rule}.", public=True)
