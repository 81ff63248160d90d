"""Policy of a site: rules of its own for what it does for any server, checked before each reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from fedkin.core import Payload, Task
from fedkin.core.errors import RefusalError
from fedkin.core.payload import owned, to_bytes


@dataclass(frozen=True)
class Policy:
    """Rules of a site that the server learns of by refusals alone, each of which names the rule and nothing else.

    `allows` says by rule whether a task may be done at all, also for a secure sum. Without `extremes`
    tasks are refused that reveal a column's exact minimum and maximum to the server, see `fedkin.core.tasks.Task`; in a
    secure sum they do not. `max_reply_bytes` is the largest reply, as it is sent. `budgets` are by rule what a run
    may spend, as mu of Gaussian differential privacy. After the day `valid_until`, in UTC, nothing is answered, nor
    outside of `hours`, from the first to before the second of the day by the site's clock, or over midnight.

    Floors for the size of groups and the account of the budget are with the client, see `fedkin.engines.site.Site`.
    """

    allows: Mapping[str, Callable[[Task], bool]] = field(default_factory=dict)
    extremes: bool = True
    max_reply_bytes: int | None = None
    budgets: Mapping[str, float] = field(default_factory=dict)
    valid_until: date | None = None
    hours: tuple[int, int] | None = None

    def check_time(self) -> None:
        """Raise RefusalError if the policy is over, or it is not the hour for answers."""
        if self.valid_until is not None and datetime.now(UTC).date() > self.valid_until:
            raise _refusal("valid_until")
        if self.hours is not None:
            (begin, end), hour = self.hours, datetime.now().astimezone().hour
            if not (begin <= hour < end if begin < end else hour >= begin or hour < end):
                raise _refusal("hours")

    def check_allowed(self, task: Task) -> None:
        """Raise RefusalError if the task is not of an allowed method, or no allowed message."""
        for rule, allowed in self.allows.items():
            if not allowed(task):
                raise _refusal(rule)

    def check_budget(self, mu: float) -> None:
        """Raise RefusalError if a run may not spend as much; written so that NaN is refused."""
        for rule, most in self.budgets.items():
            if not mu <= most:
                raise _refusal(rule)

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
