"""The target of a run, section ``[target]``: whether it is measured, and whether the run ends where it is reached."""

from __future__ import annotations

from collections.abc import Callable

from fedkin.core.errors import listing
from fedkin.core.progress import Callback, RecordLine
from fedkin.experiment.config import Config
from fedkin.report.measures import number

_NAMED = 20


class TargetWatch(Callback):
    """Callback that ends a run when its target metric is reached, if the configuration says so (``target.stop``).

    Once models have been evaluated, `tell` is called with a sentence if the metric is not measured.
    """

    def __init__(self, config: Config, tell: Callable[[str], None]) -> None:
        self.config, self.target, self.tell = config, config.target, tell
        self.looked = False

    def stops(self, line: RecordLine) -> bool:
        target = self.target
        if target.metric is None or target.reach is None:
            return False
        if not self.looked and line["step"] % self.config.evaluation.every == 0:
            self.looked = True
            if target.metric not in {**line["values"], **line["metrics"]}:
                self.tell(self._unmeasured(target.metric, line))
        value = number(line, target.metric)
        return target.stop and value is not None and value >= target.reach

    def _unmeasured(self, metric: str, line: RecordLine) -> str:
        there = sorted(name for name in {**line["values"], **line["metrics"]} if number(line, name) is not None)
        ends = ", and the run stops for it only if a later step measures it" if self.target.stop else ""
        tests = getattr(self.config.scenario, "test_fraction", None)
        hint = "; scenario.test_fraction holds out samples for tests" if tests == 0 else ""
        return (
            f"The target metric '{metric}' is not measured in step {line['step']}{ends}; there are "
            f"{listing(there, _NAMED)}{hint}."
        )
