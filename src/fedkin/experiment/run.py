"""A run: the loop from a configuration to a folder of results.

The folder holds ``config.toml`` (complete), ``records.jsonl`` (one line per step), ``checkpoint.safetensors`` (replaced
after every step), and at the end ``labels/site-<id>.csv``, ``result.json`` with ``models.safetensors``, and
``report.html``. Killed at any moment and resumed, a run leaves the same bytes as one that was never stopped, in every
file but ``timing.jsonl``: the seconds each step took, and all clients together computed in it; its step 0 is what came
before the first step, scaling and the method's init. With the engine ``flower`` a client's private files are in
``clients/<id>``, where ``identity`` is random, too. While a process works in the folder, ``.fedkin.lock`` is there.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkin.core import Federation, FedkinError, Method, Record, State
from fedkin.core.files import LOCK, occupied, write_atomically
from fedkin.core.method import Concluding
from fedkin.core.trees import load_tree, owned, save_tree
from fedkin.data.population import Population
from fedkin.data.preparing.scaling import Scaling, restore_scaling, scale
from fedkin.data.scenarios.drift import population_at, welcome
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.experiment.checkpoint import settle, snapshot
from fedkin.experiment.config import Config, load_config
from fedkin.experiment.evaluation import evaluator_for, informed, latents_of
from fedkin.experiment.opening import forget_clients, world_of
from fedkin.experiment.outputs import RESULT, write_clients, write_encoder, write_labels, write_result
from fedkin.experiment.tracking import NOTES, Trackers, check_installed
from fedkin.experiment.views import view_of
from fedkin.experiment.words import number
from fedkin.report import write_report
from fedkin.secure.sums import secure

CONFIG, RECORDS, TIMING, CHECKPOINT, REPORT = (
    "config.toml",
    "records.jsonl",
    "timing.jsonl",
    "checkpoint.safetensors",
    "report.html",
)
TRACKED = (RESULT, REPORT)
"""Files that tools which track the run keep; the first is there when the run is done."""


RecordLine = dict[str, Any]
"""One line of ``records.jsonl``: step, answered, missing, values, metrics, and the bytes sent and received so far."""


class Progress:
    """What a run tells while it goes on; this one keeps quiet, `fedkin.experiment.terminal` shows it."""

    def phase(self, text: str) -> None:
        """Something that may take a while begins."""

    def part(self, done: int, total: int) -> None:
        """`done` of the `total` clients of the present exchange have answered."""

    def step(self, line: RecordLine, seconds: float) -> None:
        """A step ended and is on disk."""

    def warn(self, text: str) -> None:
        """Something went wrong that the run can do without; even who keeps quiet is told."""
        warnings.warn(text, stacklevel=2)


@dataclass(frozen=True)
class RunOutcome:
    """What a run leaves.

    Attributes
    ----------
    folder : Path
        Where its files are.
    state : State
        The method's last state.
    records : list of dict
        The lines of ``records.jsonl``.
    config : Config
        The experiment.
    """

    folder: Path
    state: State
    records: list[RecordLine]
    config: Config

    @property
    def report(self) -> Path:
        """The page that shows it all."""
        return self.folder / REPORT


def execute(config: Config, folder: Path, progress: Progress | None = None) -> RunOutcome:
    """Run an experiment into `folder`.

    Raises
    ------
    FedkinError
        If `folder` holds anything already or another process is at work there, the data are refused, a file cannot be
        written, or a tool that tracks the run is not installed or cannot be opened.
    """
    _check_empty(folder)
    check_installed(config.tracking)
    progress = progress or Progress()
    with occupied(folder):
        _check_empty(folder)
        began = False
        try:
            write_atomically(folder / CONFIG, config.to_toml())
            with world_of(config, folder, progress) as (population, fed):
                run = Run(config, folder, progress, population, fed)
                began = True
                return run.finish()
        except BaseException as error:
            refused = isinstance(error, FedkinError) and not (folder / CHECKPOINT).exists()
            if refused or not began:  # the folder is free for another try
                _clear(folder)
            raise


def resume(folder: Path, progress: Progress | None = None) -> RunOutcome:
    """Go on with the run in `folder` from its last checkpoint; a finished one has its results written again.

    Raises
    ------
    FedkinError
        If `folder` holds no run, its files do not fit together, or another process is at it.
    """
    if not (folder / CONFIG).is_file():
        raise _no_run(folder)
    progress = progress or Progress()
    with occupied(folder), _opened(folder, progress) as run:
        return run.finish()


def is_finished(folder: Path) -> bool:
    """Whether the run in `folder` has come to its end; what it writes last is its page, which others may have, too."""
    return all((folder / name).is_file() for name in TRACKED)


def report(folder: Path) -> Path:
    """Write ``report.html`` of the run in `folder` again, as of its last step; returns the page's path.

    Raises
    ------
    FedkinError
        If `folder` holds no run that has come to a step.
    """
    if (folder / CONFIG).is_file() and not (folder / CHECKPOINT).exists():
        raise FedkinError(f"{folder} has nothing to report yet; go on with `fedkin resume {folder}`.")
    with _opened(folder, Progress(), to_work=False) as run:
        state = run.last_state()
        assert state is not None
        return run.write_report(state)


class Run:
    """The loop. Building one scales the clients' data; `finish` does the rest.

    Parameters
    ----------
    config : Config
        The experiment.
    folder : Path
        Where its files are and go.
    progress : Progress
        Told what happens.
    population : Population
        Who takes part, as far as this process knows: without clients where they are elsewhere.
    fed : Federation
        How they are reached.
    """

    def __init__(
        self, config: Config, folder: Path, progress: Progress, population: Population, fed: Federation
    ) -> None:
        self.config, self.folder, self.progress, self.fed = config, folder, progress, fed
        self._began = time.perf_counter()
        fed.away = population.away(0)
        if config.engine.secure_sums:
            secure(fed, config.method)
        self.checkpoint = _checkpoint(folder / CHECKPOINT)
        if self.checkpoint is None:
            self.scaling: Scaling = scale(fed, config.data.scaling)
        else:
            self.scaling = Scaling.from_tree(self.checkpoint["scaling"])
        for i in population.absent:  # nobody can tell them how; the evaluator needs it
            population.clients[i].x = self.scaling.apply(population.clients[i].x)
        self.population = population.scaled(self.scaling)
        self.method: Method[Any] = informed(config.method, self.population, fed)
        self.records: list[str] = []
        self.timing: list[str] = []
        self.trackers = Trackers(config, folder, TRACKED, self._untracked)

    def finish(self) -> RunOutcome:
        """Step until the method has come to its end, then write what it found."""
        state = self.last_state()
        if self.config.tracking.to:
            self.progress.phase("Opening what tracks the run")
        with self.trackers.at_work(self.records, self.timing):
            state = self._finished(state)
        return RunOutcome(self.folder, state, [json.loads(line) for line in self.records], self.config)

    def _finished(self, state: State | None) -> State:
        if state is None:
            self.progress.phase("Preparing the clients")
            with one_thread():
                state = self.method.init(self.fed)
                self._clocked(0, time.perf_counter() - self._began, self.fed.seconds)
                state = self._keep(state)
        while not state.finished:
            with one_thread():
                state = self._step(state)
        self.progress.phase("Writing the results")
        write_labels(self.folder, self.fed.clients.values())
        found = self.method.result(state)
        if "labels" in found:
            write_clients(self.folder, found["labels"], self.population.names)
        write_encoder(self.folder, found)
        write_result(self.folder, self.config.method_name, found, self.scaling, self.population)
        self.write_report(state)
        return state

    def last_state(self) -> State | None:
        """Put everything where the last checkpoint was taken; ``None`` if there is no checkpoint yet."""
        if self.checkpoint is None:
            return None
        state = settle(self.fed, self.method.state_type, self.checkpoint)
        if isinstance(self.fed, LocalFederation):
            for i in self.fed.present:
                restore_scaling(self.fed.clients[i])
        self.fed.refresh()
        self._turn(state.steps)
        self.records = _lines(self.folder / RECORDS)[: state.steps]
        self.timing = [line for line in _lines(self.folder / TIMING) if json.loads(line)["step"] <= state.steps]
        if len(self.records) < state.steps:
            raise FedkinError(
                f"{self.folder / RECORDS} has {len(self.records)} lines where the checkpoint has {state.steps} steps; "
                "the run cannot be resumed."
            )
        return state

    def write_report(self, state: State) -> Path:
        """Write the page that shows the run as of its last step, which left `state`."""
        records = [json.loads(line) for line in self.records]
        latents = latents_of(self.method, self.population, self.method.result(state)) if state.finished else None
        view = view_of(self.config, self.population, self.scaling, records, latents)
        write_report(self.folder / REPORT, view)
        return self.folder / REPORT

    def _step(self, state: State) -> State:
        self.progress.phase(f"Step {state.steps + 1}")
        computed = self.fed.seconds  # what newcomers compute to join belongs to the step, as its bytes do
        self._turn(state.steps + 1)
        began = time.perf_counter()
        state, record = self.method.step(self.fed, state)
        seconds, computed = time.perf_counter() - began, self.fed.seconds - computed
        line = self._line(state, record)
        if self._is_enough(line) and not state.finished:
            state = dataclasses.replace(state, finished=True)
            if isinstance(self.method, Concluding):
                self.method.conclude(self.fed, state)
            line = self._line(state, record)  # the last record also judges the models
        self.records.append(json.dumps(line))
        # The checkpoint comes last: a record too many is cut off again, one too few could not be made up for.
        self._clocked(state.steps, seconds, computed)
        write_atomically(self.folder / RECORDS, "".join(f"{line}\n" for line in self.records))
        state = self._keep(state)
        self.progress.step(line, seconds)
        self.trackers.step(line, json.loads(self.timing[-1]))
        return state

    def _untracked(self, sentence: str) -> None:
        self.progress.warn(f"{sentence}; the run goes on, and `fedkin track {self.folder}` sends the rest.")

    def _clocked(self, step: int, seconds: float, computed: float) -> None:
        """Write down how long a step took, and how long all clients together computed in it."""
        entry = {"step": step, "seconds": round(seconds, 3), "client_seconds": round(computed, 6)}
        self.timing.append(json.dumps(entry))
        write_atomically(self.folder / TIMING, "".join(f"{line}\n" for line in self.timing))

    def _turn(self, step: int) -> None:
        """Bring the world to where it is in `step`: who has joined, and what everyone sees."""
        self.population = population_at(self.population, step)
        welcome(self.fed, self.population, step, self.scaling)
        self.method = informed(self.config.method, self.population, self.fed)

    def _is_enough(self, line: RecordLine) -> bool:
        """Whether the target of the run is reached, and the run is to end there."""
        target = self.config.target
        if not target.stop or target.metric is None or target.reach is None:
            return False
        value = number(line, target.metric)
        return value is not None and value >= target.reach

    def _line(self, state: State, record: Record) -> RecordLine:
        models_too = state.finished or state.steps % self.config.evaluation.every == 0
        self.fed.refresh()
        evaluate = evaluator_for(self.method, models_too) if self.population.clients else None
        metrics = evaluate(self.method, self.population, self.fed, state) if evaluate else {}
        line = {
            "step": state.steps,
            "answered": record.answered,
            "missing": {str(client): reason for client, reason in record.missing.items()},
            "values": record.values,
            "metrics": metrics,
            "sent": self.fed.traffic.sent,
            "received": self.fed.traffic.received,
        }
        finite: RecordLine = _finite(line)
        return finite

    def _keep(self, state: State) -> State:
        tree = {**snapshot(self.fed, state), "scaling": owned(self.scaling.tree())}
        save_tree(self.folder / CHECKPOINT, tree)
        return settle(self.fed, self.method.state_type, tree)


@contextmanager
def _opened(folder: Path, progress: Progress, to_work: bool = True) -> Iterator[Run]:
    """The run in `folder`; with an engine that can be asked something only if it is to work."""
    if not (folder / CONFIG).is_file():
        raise _no_run(folder)
    config = load_config(folder / CONFIG)
    if to_work:
        check_installed(config.tracking)
    with world_of(config, folder, progress, to_work) as (population, fed):
        yield Run(config, folder, progress, population, fed)


def _check_empty(folder: Path) -> None:
    """See that a run can be made in `folder`; the lock and half a file are nobody's."""
    if not folder.exists():
        return
    if not folder.is_dir() or any(file.suffix != ".partial" and file.name != LOCK for file in folder.iterdir()):
        raise FedkinError(f"{folder} is not an empty folder; give another --out, or `fedkin resume` it if it is a run.")


def _clear(folder: Path) -> None:
    """Take away what a run that has not come to its first step wrote into its folder, which was empty."""
    for name in (CONFIG, TIMING, NOTES):
        (folder / name).unlink(missing_ok=True)
    forget_clients(folder)


def _checkpoint(path: Path) -> dict[str, Any] | None:
    """What the run goes on from, if it has begun."""
    if not path.exists():
        return None
    tree: dict[str, Any] = load_tree(path)
    if lacks := {"state", "exchange", "keys", "scaling", "clients"} - tree.keys():
        raise FedkinError(
            f"{path} lacks {', '.join(sorted(lacks))}; resume the run with the version of fedkin that wrote it."
        )
    return tree


def _no_run(folder: Path) -> FedkinError:
    return FedkinError(f"{folder} holds no run: {CONFIG} is absent.")


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _finite(value: Any) -> Any:
    """`value` with ``None`` for numbers that JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
