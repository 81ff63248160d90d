"""Loop of a run: prepare the clients' data, make steps, and write the results."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from fedkin.core import Federation, Record, State
from fedkin.core.contract import clustered, result_of, used_clusters
from fedkin.core.method import with_server_data
from fedkin.core.payload import owned
from fedkin.core.progress import Callback, Callbacks, Progress, RecordLine, Timing, run_with_callbacks
from fedkin.core.runner import Runner
from fedkin.data.encoding import PreparingOptions
from fedkin.data.options import AUTO
from fedkin.data.population import Population, short_names
from fedkin.data.preparation import Preparation, remembered, restore_preparation
from fedkin.data.prepare import admit_joined_clients, prepare_arrivals
from fedkin.data.prepare import prepare as prepare_data
from fedkin.data.profile import ClusterProfile, profile_clusters
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.experiment.checkpoint import load_checkpoint, restore_checkpoint, snapshot
from fedkin.experiment.config import Config, preparing_for
from fedkin.experiment.early_stopping import TargetWatch
from fedkin.experiment.evaluation import evaluator_for, with_oracle
from fedkin.experiment.outputs import (
    READING,
    load_profile,
    write_clients,
    write_encoder,
    write_labels,
    write_reading,
    write_result,
)
from fedkin.experiment.run_folder import (
    CHECKPOINT,
    CONFIG,
    RECORDS,
    REPORT,
    RESULTS,
    RunFiles,
    read_records,
    write_sums,
)
from fedkin.experiment.tracking import Trackers
from fedkin.report.page import write_page
from fedkin.report.run_page import guess_of, latents_of, page_of_run
from fedkin.secure_aggregation.sums import secure


@dataclass(frozen=True)
class RunOutcome:
    """Results of a run.

    Attributes
    ----------
    folder : Path
        The run's folder.
    state : State
        The method's last state.
    records : list of dict
        The lines of ``records.jsonl``.
    config : Config
        The experiment.
    clients : list of str
        Names of the clients, in order of id; empty if they have ids only.
    notes : list of str
        What was noted of the clients' data.
    guess : float or None
        Accuracy of always guessing a client's most frequent class, mean over clients; ``None`` if it is not known.
    n_clusters : int or None
        Number of clusters that have samples; ``None`` for clusters of clients, and on a real federation.
    """

    folder: Path
    state: State
    records: list[RecordLine]
    config: Config
    clients: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    guess: float | None = None
    n_clusters: int | None = None

    @property
    def report(self) -> Path:
        """Path of the run's HTML page."""
        return self.folder / REPORT


def prepare(
    config: Config,
    folder: Path,
    population: Population,
    fed: Federation,
    progress: Progress,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Prepare a run: its clients' data, or the checkpoint in `folder` from which it resumes.

    `population` has the clients as this process knows them; there are none on a real federation. `progress` and
    `callbacks` are called as the run proceeds. Raises FedkinError if the checkpoint is of another version, or the data
    or the method's settings are refused.
    """
    began = time.perf_counter()
    _connect(config, population, fed, progress)
    checkpoint = load_checkpoint(folder / CHECKPOINT)
    if checkpoint is None:
        preparation = _prepared(config, population, fed, progress)
    else:
        preparation = Preparation.from_tree(checkpoint["preparation"])
    for i in population.absent:  # nobody asks them, but the evaluator needs their samples
        population.clients[i].x = preparation.of(population.clients[i])

    def untracked(sentence: str) -> None:
        progress.warn(f"{sentence}; the run continues, and `fedkin track {folder}` sends the rest.")

    every = config.engine.keep_checkpoints
    files = RunFiles(folder, checkpoint["state"]["steps"] if checkpoint else None, progress.warn, every)
    ordered = [files, progress, *callbacks, Trackers(config, folder, untracked), TargetWatch(config, progress.warn)]
    population = population.prepared(preparation)
    return Run(config, folder, population, fed, preparation, checkpoint, Callbacks(ordered), began)


def check_data(config: Config, population: Population, fed: Federation, progress: Progress) -> Preparation:
    """Prepare the clients' data as `prepare` does it, and show what is noted of them.

    The population must not be used for a run afterwards. Raises FedkinError if the data or the method's settings are
    refused, or the method refuses what the clients hold, such as samples without labels.
    """
    _connect(config, population, fed, progress)
    preparation = _prepared(config, population, fed, progress)
    config.method.check_clients(fed)
    return preparation


def _prepared(config: Config, population: Population, fed: Federation, progress: Progress) -> Preparation:
    preparation = prepare_data(fed, _preparing(config), population.names).noted(population.notes, population.questions)
    for note in preparation.notes:
        progress.note(note)
    return preparation


def _connect(config: Config, population: Population, fed: Federation, progress: Progress) -> None:
    """Tell a federation who takes part from the start, and whether it may learn sums alone."""
    fed.leave(population.away(0))
    if config.engine.secure_sums:
        secure(fed, config.method)


def _preparing(config: Config) -> PreparingOptions:
    return preparing_for(config.method, config.data.preparing)


class Run(Runner):
    """Runner of a run in a folder, made by `prepare`.

    Its clients have prepared data. The first of the callbacks keeps its files. `checkpoint` is what the run resumes
    from, if any; `began` is the time at which its preparation began, by `time.perf_counter`.
    """

    def __init__(
        self, config: Config, folder: Path, population: Population, fed: Federation, preparation: Preparation,
        checkpoint: dict[str, Any] | None, callbacks: Callbacks, began: float,
    ) -> None:  # fmt: skip
        self.config, self.folder, self.population, self.preparation = config, folder, population, preparation
        self.checkpoint, self.began = checkpoint, began
        method = with_server_data(config.method, preparation.read)
        super().__init__(
            with_oracle(method, self._truth, fed) if population.truth is not None else method, fed, callbacks
        )

    def finish(self) -> RunOutcome:
        """Make steps until the method has finished, then write the results."""
        state = self.last_state()
        if self.config.tracking.to:
            self.callbacks.phase("Opening the trackers")
        with run_with_callbacks(self.callbacks):
            state = self._finished(state)
            records = self.write_report(state)
        of_data = [*self.population.notes, *self.preparation.notes]  # a resumed run reads its first notes without kinds
        notes, guess = list(dict.fromkeys(of_data)), guess_of(self.population)
        of_samples = self.method.traits.clusters == "samples"
        labels = [one.state["clusters"] for one in clustered(self.fed)] if of_samples else []
        used = used_clusters(labels) if labels else None
        return RunOutcome(self.folder, state, records, self.config, self.population.names, notes, guess, used)

    def _finished(self, state: State | None) -> State:
        if state is None:
            self.callbacks.phase("Preparing the clients")
        with one_thread():
            state = self.steps(state)
        self.callbacks.phase("Writing the results")
        found = result_of(self.method, self.fed, state)
        write_labels(self.folder, clustered(self.fed), self.population.names)
        with one_thread():
            profile = self._profile(found)
        if "labels" in found:
            write_clients(self.folder, found["labels"], short_names(self.population.names), found.get("memberships"))
        write_encoder(self.folder, found)
        write_result(self.folder, self.config.method_name, found, self.preparation, self.population, profile)
        reading = remembered(client.table for client in self.population.clients)
        commas = self.config.data.decimal == AUTO and reading.get("decimal") == ","
        if commas:  # of which a single new row may not tell
            write_reading(self.folder, replace(self.config.data.table, **reading))
        write_sums(self.folder, [CONFIG, RECORDS, *RESULTS, *([READING] if commas else [])])
        return state

    def _profile(self, found: Mapping[str, Any]) -> ClusterProfile | None:
        """Compute the clusters' profile after the last step, so that it cannot affect the run."""
        encoding, method = self.preparation.encoding, self.method
        if encoding is None or not self.fed.present or method.traits.clusters != "samples" or method.is_private():
            return None
        return profile_clusters(self.fed, encoding, int(found["n_clusters"]), self.config.data.min_members)

    def last_state(self) -> State | None:
        """Restore the federation and the method's state from the checkpoint; ``None`` without a checkpoint."""
        if self.checkpoint is None:
            return None
        state = restore_checkpoint(self.fed, self.method.state_type, self.checkpoint)
        if isinstance(self.fed, LocalFederation):
            for i in self.fed.present:
                restore_preparation(self.fed.clients[i])
        self.fed.refresh()
        self._populate(state.steps)
        return state

    def write_report(self, state: State) -> list[RecordLine]:
        """Write the page of the run after its last step, which left `state`, and return the records shown."""
        records = read_records(self.folder, state.steps)
        latents = latents_of(self.method, self.population, self.method.result(state)) if state.finished else None
        profile = load_profile(self.folder) if state.finished else None
        view = page_of_run(self.config, self.population, self.preparation, records, latents, profile)
        write_page(self.folder / REPORT, view)
        return records

    def advance(self, step: int) -> None:
        """Advance the population to `step`, clients that have joined and data that have drifted; prepare arrivals."""
        self._populate(step)
        if arrived := self.fed.arrived():
            prepare_arrivals(self.fed, arrived, self.preparation)

    def _populate(self, step: int) -> None:
        self.population = self.population.at(step)
        admit_joined_clients(self.fed, self.population.clients, self.population.away(step), self.preparation)

    def _truth(self, client: int) -> Tensor:
        """Return the current true classes of a client's samples, which drift can change."""
        assert self.population.truth is not None
        return self.population.truth[client]

    def judge(self, state: State, record: Record | None) -> Mapping[str, Any]:
        """Evaluate the clusters after a step, the models too where they are due."""
        if record is None:
            return {}
        models_too = state.finished or state.steps % self.config.evaluation.every == 0
        self.fed.refresh()
        common_test = self.config.evaluation.common_test
        evaluate = evaluator_for(self.method, models_too, common_test) if self.population.clients else None
        return evaluate(self.method, self.population, self.fed, state) if evaluate else {}

    def keep(self, state: State, timing: Timing, line: RecordLine | None) -> State:
        """Write the checkpoint, and return the state that it gives back; the first step's time has the preparation."""
        if line is None:
            timing = {**timing, "seconds": round(time.perf_counter() - self.began, 3)}
        tree = {**snapshot(self.fed, state), "preparation": owned(self.preparation.tree())}
        self.callbacks.checkpoint(tree, timing, line)
        return restore_checkpoint(self.fed, self.method.state_type, tree)
