"""Policy of a site: rules of its own for what it does for any server, checked before each reply."""

from __future__ import annotations

from datetime import UTC, date, datetime
from fnmatch import fnmatchcase

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from fedkin.core import Payload, Task
from fedkin.core.errors import RefusalError
from fedkin.core.payload import owned, to_bytes
from fedkin.data.options import MIN_MEMBERS

SUMS = "fedkin.secure_aggregation."
"""Begin of the names of a secure sum's own tasks; the task whose replies are summed is checked, too."""


class Policy(BaseModel):
    """Rules of a site, each of which may be absent; the server learns of them by refusals that name the rule alone.

    Attributes
    ----------
    min_members : int or None
        As in the site's file; the stricter of both holds, as it does with what the server asks for.
    messages : list of str or None
        The only tasks that are done, by name, in which a star stands for anything.
    extremes : bool
        If false, no exact minimum and maximum of a column leave, but for secure sums, see `fedkin.core.tasks.Task`.
    max_reply_bytes : int or None
        The largest reply, as it is sent.
    epsilon, epsilon_per_run : float or None
        Budget of all runs together, of which the smaller of this and the site's file holds, and that of each run.
    signed_by : str or None
        Who answers for the policy.
    valid_until : date or None
        The last day, in UTC, on which anything is answered.
    hours : str or None
        Such as "20-6": when the site answers, by its own clock.
    """

    model_config = ConfigDict(strict=True, extra="forbid")
    min_members: int | None = Field(default=None, ge=MIN_MEMBERS)
    messages: list[str] | None = None
    extremes: bool = True
    max_reply_bytes: PositiveInt | None = None
    epsilon: PositiveFloat | None = Field(default=None, allow_inf_nan=False)
    epsilon_per_run: PositiveFloat | None = Field(default=None, allow_inf_nan=False)
    signed_by: str | None = Field(default=None, min_length=1)
    valid_until: date | None = None
    hours: str | None = Field(default=None, pattern="^([01]?[0-9]|2[0-3])-([01]?[0-9]|2[0-4])$")

    def check_day(self) -> None:
        """Raise RefusalError if the policy is over."""
        if self.valid_until is not None and datetime.now(UTC).date() > self.valid_until:
            raise refusal_by("valid_until")

    def check_hour(self) -> None:
        """Raise RefusalError if it is not the hour for answers."""
        if self.hours is not None:
            (begin, end), hour = map(int, self.hours.split("-")), datetime.now().astimezone().hour
            if not (begin <= hour < end if begin < end else hour >= begin or hour < end):
                raise refusal_by("hours")

    def check_allowed(self, task: Task) -> None:
        """Raise RefusalError if the task is not to be done at all, also not for a secure sum."""
        patterns = [*(["*"] if self.messages is None else self.messages), f"{SUMS}*"]
        if not any(fnmatchcase(task.name, pattern) for pattern in patterns):
            raise refusal_by("messages")

    def check_extremes(self, task: Task) -> None:
        """Raise RefusalError if the task's own reply, which is not part of a secure sum, reveals what it must not."""
        if task.extremes and not self.extremes:
            raise refusal_by("extremes")

    def check_reply(self, reply: Payload) -> None:
        """Raise RefusalError if a reply is larger than the site sends."""
        if self.max_reply_bytes is not None and len(to_bytes(owned(reply))) > self.max_reply_bytes:
            raise refusal_by("max_reply_bytes")


def refusal_by(rule: str) -> RefusalError:
    """Return the error of a site whose rule of this name forbids something."""
    return RefusalError(f"The site's policy refuses this: {rule}.", public=True)
