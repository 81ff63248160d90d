"""Run an experiment from its configuration to a folder of results.

The folder holds ``config.toml`` (complete), ``records.jsonl`` (one line per step), ``checkpoint.safetensors`` (replaced
after every step), and at the end ``labels/<client>.csv``, ``models.safetensors`` with what `fedkin predict` needs,
``result.json``, what of it people can read, and ``report.html``. Killed at any moment and resumed, a run leaves the
same bytes as one that was never stopped, in every file except ``timing.jsonl``. That has the seconds of each step, and
those all clients together computed in it; its step 0 is preparing the data and the method's init. With the engine
``flower`` a client's private files are in ``clients/<id>``, where ``identity`` is random, too. While a process works in
the folder, ``.fedkin.lock`` is there.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Record, State
from fedkin.core.device import device_named, on
from fedkin.core.errors import require
from fedkin.core.files import LOCK, check_empty, folder_lock, read_json, write_atomically
from fedkin.core.method import HasNodes
from fedkin.core.payload import owned
from fedkin.core.runner import (
    Callback,
    Callbacks,
    Progress,
    RecordLine,
    Runner,
    Timing,
    clustered,
    result_of,
    run_with_callbacks,
)
from fedkin.data.population import Population, short_names
from fedkin.data.preparation import Preparation, admit_joined_clients, restore_preparation
from fedkin.data.preparation import prepare as prepare_data
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.experiment import run_folder
from fedkin.experiment.config import Config, EvaluationSection
from fedkin.experiment.numbering import CHANGES, Changes, Earlier, compared, earlier_of, write_names

if TYPE_CHECKING:
    from fedkin.data.profile import ClusterProfile

_REMEDY = "give another --out, or `fedkin resume` it if it is a run"
"""How to go on where a run's folder is not empty."""


@dataclass(frozen=True)
class RunOutcome:
    """Results of a run: its `folder`, the method's last `state`, and the lines of ``records.jsonl``.

    `clients` are names in order of id, empty if there are none; `notes` what was noted of the data. `sizes` are numbers
    of members, samples or clients, of each cluster, none where a real federation's samples are clustered. `changes` say
    what differs from the run whose numbers of clusters it keeps, if it keeps one's. `profile` describes the clusters of
    tables, and `words` distinguish those of texts.
    """

    folder: Path
    state: State
    records: list[RecordLine]
    config: Config
    clients: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    changes: Changes | None = None
    profile: ClusterProfile | None = None
    words: list[list[str]] = field(default_factory=list)

    @property
    def n_clusters(self) -> int | None:
        """Number of clusters that have members, ``None`` where it is not known."""
        return sum(size > 0 for size in self.sizes) or None

    @property
    def report(self) -> Path:
        """Path of the run's HTML page."""
        return self.folder / run_folder.REPORT


def execute(
    config: Config, folder: Path, progress: Progress | None = None, callbacks: Sequence[Callback] = ()
) -> RunOutcome:
    """Run an experiment into `folder`, which is empty or absent; `progress` and `callbacks` are called as it proceeds.

    Raises FedkinError if `folder` is not empty or another process works there, the data are refused, or a file cannot
    be written.
    """
    progress = progress or Progress()
    with new_folder(folder), open_federation(config, folder, progress) as (population, fed):
        run = Run(config, folder, population, fed, progress, callbacks)
        run_folder.write_config(folder, config)
        return run.finish()


@contextmanager
def new_folder(folder: Path, copies: bool = False) -> Iterator[None]:
    """Lock a folder for a run, which is empty or absent, and empty it again if it is refused before its first step.

    A run that `copies` another begins with that one's steps. Raises FedkinError if the folder is not empty, or another
    process works there.
    """
    check_empty(folder, _REMEDY)
    with folder_lock(folder):
        check_empty(folder, _REMEDY)  # another process may have come first
        try:
            yield
        except BaseException as error:
            is_begun = (folder / run_folder.CHECKPOINT).exists() and not copies
            if not (folder / run_folder.CONFIG).exists() or (isinstance(error, FedkinError) and not is_begun):
                for path in folder.iterdir():
                    if path.is_dir():
                        shutil.rmtree(path)
                    elif path.name != LOCK:
                        path.unlink()
            raise


def check(config: Config, folder: Path, progress: Progress | None = None) -> tuple[Population, Preparation]:
    """Check that an experiment can begin in `folder`, as `execute` would, and prepare its data; nothing is written.

    Returns the clients, which are in this process whatever the engine, and how their data are prepared. Raises
    FedkinError as `execute` and `check_machine` do, or if the method refuses what the clients hold.
    """
    check_empty(folder, _REMEDY)
    check_machine(config)
    config = replace(config, simulation=config.simulation.model_copy(update={"engine": "local"}))
    progress = progress or Progress()
    with open_federation(config, folder, progress) as (population, fed):
        _connect(config, population, fed)
        preparation = _prepare_clients(config, population, fed, progress)
        config.method.check_clients(fed)
        return population, preparation


def resume(
    folder: Path, progress: Progress | None = None, callbacks: Sequence[Callback] = (), device: str | None = None
) -> RunOutcome:
    """Resume the run in `folder` from its last checkpoint; the results of a finished run are written again.

    `device` is where networks and large searches compute from here on, if not as ``config.toml`` says. Raises
    FedkinError if `folder` holds no run, its files do not fit together or are of another version, there is no such
    device, or another process works there.
    """
    if not (folder / run_folder.CONFIG).is_file():
        raise run_folder.no_run(folder)
    if (folder / run_folder.LEDGER).is_file():
        raise FedkinError(
            f"{folder} is the run of a real federation; `./flwr.sh run . federation --stream` in its app's folder "
            "resumes it."
        )
    with folder_lock(folder):
        config = run_folder.run_config(folder, [] if device is None else [f"device.name={json.dumps(device)}"])
        progress = progress or Progress()
        with open_federation(config, folder, progress) as (population, fed):
            return Run(config, folder, population, fed, progress, callbacks).finish()


@contextmanager
def open_federation(config: Config, folder: Path, progress: Callback) -> Iterator[tuple[Population, Federation]]:
    """Open the population of an experiment and the federation that reaches it, as a context manager.

    `folder` is the run's; `progress` receives `phase` and `part`. Raises FedkinError if the data are refused.
    """
    with computing(config):
        progress.phase(f"Reading {config.data.source}")
        population = config.population()
        common: dict[str, Any] = {
            "names": short_names(population.names), "min_clients": config.federation.min_clients,
            "on_drop": progress.warn,
        }  # fmt: skip
        if config.simulation.engine != "flower":
            yield population, local_federation(config, population.clients, progress, **common)
            return
        require("Engine 'flower'", "flwr ray", "flower")
        from fedkin.engines.flower_engine import importing_flower

        with importing_flower():
            from fedkin.experiment.simulation import simulated

        progress.phase("Starting Flower's simulation")
        with simulated(config, population, folder, on_progress=progress.part, **common) as fed:
            yield population, fed


def local_federation(config: Config, clients: Sequence[Client], progress: Callback, **more: Any) -> LocalFederation:
    """Return these clients in this process, with what the configuration says of the engine."""
    chunk, workers = (None if each == "auto" else each for each in (config.device.chunk, config.device.workers))
    more |= {"drop_rate": config.simulation.drop_rate, "failures": config.simulation.failures}
    more |= {"device": device_of(config)}
    return LocalFederation(clients, config.seed, chunk, workers, on_progress=progress.part, **more)


def computing(config: Config) -> AbstractContextManager[None]:
    """Have networks compute on the experiment's device."""
    return on(device_of(config))


def device_of(config: Config) -> torch.device:
    """Return the experiment's device; raise FedkinError if there is no such device."""
    return device_named(config.device.name, "'device.name'")


def check_machine(config: Config) -> None:
    """Check that the device and the engine of an experiment are available."""
    device_of(config)
    if config.simulation.engine == "flower":
        require("Engine 'flower'", "flwr ray", "flower")


def _prepare_clients(config: Config, population: Population, fed: Federation, progress: Progress) -> Preparation:
    """Have the clients prepare their data, and show what is noted of them."""
    preparation = prepare_data(fed, config.data.table.of(config.method), population.names)
    preparation = preparation.noted(population.notes, population.questions)
    for note in preparation.notes:
        progress.note(note)
    return preparation


def _connect(config: Config, population: Population, fed: Federation) -> None:
    """Tell a federation who takes part from the start, and whether it may learn sums alone."""
    fed.leave(population.away(0))
    if config.federation.secure_sums:
        from fedkin.secure_aggregation.sums import secure

        secure(fed)


class _TargetWatch(Callback):
    """Callback that ends a run when its target metric is reached, if ``evaluation.stop`` says so."""

    def __init__(self, evaluation: EvaluationSection) -> None:
        self.evaluation = evaluation

    def stops(self, line: RecordLine) -> bool:
        reach, values = self.evaluation.reach, {**line["values"], **line["metrics"]}
        value = values.get(self.evaluation.target)
        return self.evaluation.stop and reach is not None and isinstance(value, int | float) and value >= reach


class ExperimentRunner(Runner):
    """Runner of an experiment's method on its population, in which clients join and data drift."""

    def __init__(
        self, config: Config, population: Population, fed: Federation, preparation: Preparation, callbacks: Callback
    ) -> None:
        self.config, self.population, self.preparation = config, population, preparation
        method = config.method.for_embeddings(preparation.encoder).with_server_data(preparation.apply)
        if population.truth is not None:
            from fedkin.experiment.evaluation import with_oracle

            method = with_oracle(method, self._truth, fed)
        super().__init__(method, fed, callbacks)

    def advance(self, step: int) -> None:
        self.populate(step)

    def populate(self, step: int) -> None:
        """Advance the population to `step`, clients that have joined and data that have drifted."""
        self.population = self.population.at(step)
        admit_joined_clients(self.fed, self.population.clients, self.population.away(step), self.preparation)

    def _truth(self, client: int) -> Tensor:
        """Return the current true classes of a client's samples, which drift can change."""
        assert self.population.truth is not None
        return self.population.truth[client]


class Run(ExperimentRunner):
    """Runner of a run in a folder, from its beginning or from the checkpoint that is there.

    `population` has the clients as this process knows them; there are none on a real federation. They prepare their
    data, if they have not. Raises FedkinError if the checkpoint is of another version, or the data or the method's
    settings are refused.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        population: Population,
        fed: Federation,
        progress: Progress,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.folder, self.began = folder, time.perf_counter()
        _connect(config, population, fed)
        self.checkpoint = run_folder.load_checkpoint(folder / run_folder.CHECKPOINT)
        self.changes: Changes | None = None
        self.earlier: Earlier | None = None
        if self.checkpoint is not None and self.checkpoint["experiment"] != run_folder.experiment_of(config):
            path = folder / run_folder.CONFIG
            raise FedkinError(
                f"{path} was changed since the run began; put it back as it was, or begin another run with `fedkin run "
                f"{path}`."
            )
        if config.evaluation.like is not None:
            # An end that is written again keeps its numbers, for the earlier run may be gone.
            if self.checkpoint is not None and self.checkpoint["state"]["finished"] and (folder / CHANGES).is_file():
                self.changes = read_json(folder / CHANGES, Changes)
            else:
                self.earlier = earlier_of(Path(config.evaluation.like).expanduser())
        if self.checkpoint is None:
            preparation = _prepare_clients(config, population, fed, progress)
        else:
            preparation = Preparation.from_tree(self.checkpoint["preparation"])
        if self.earlier is not None:
            self.earlier.check(config.method, preparation.encoding)
        for i in population.absent:  # nobody asks them, but the evaluator needs their samples
            population.clients[i].x = preparation.of(population.clients[i])
        files = run_folder.RunFiles(folder, self.checkpoint["state"]["steps"] if self.checkpoint else None)
        watch = _TargetWatch(config.evaluation)
        ordered = Callbacks([files, progress, *callbacks, watch])
        super().__init__(config, preparation.of_tests(population), fed, preparation, ordered)

    def finish(self) -> RunOutcome:
        """Make steps until the method has finished, then write the results."""
        state = self.last_state() if self.checkpoint is not None else None
        with run_with_callbacks(self.callbacks):
            if state is None:
                self.callbacks.phase("Preparing the clients")
            with one_thread():
                state = self.steps(state)
            self.callbacks.phase("Writing the results")
            result = result_of(self.method, self.fed, state)
            if self.earlier is not None and self.fed.present:
                with one_thread():
                    table = self.earlier.ask(self.fed, int(result["n_clusters"]), self.config.data.min_members)
                self.changes = compared(self.earlier, self.earlier.numbers(table), table)
            profile, words = self._write_results(result)
            records = run_folder.read_records(self.folder, state.steps)
            self._write_page(state, records, profile, words)
        notes = list(dict.fromkeys([*self.population.notes, *self.preparation.notes]))
        is_of_samples = self.method.traits.clusters == "samples"
        parts = [each.state["clusters"] for each in clustered(self.fed)] if is_of_samples else [result.get("labels")]
        labels = torch.cat([torch.zeros(0, dtype=torch.int64), *(part for part in parts if part is not None)])
        sizes = labels[labels >= 0].bincount().tolist()
        shown = (self.population.names, notes, sizes, self.changes, profile, words)
        return RunOutcome(self.folder, state, records, self.config, *shown)

    def _write_page(
        self, state: State, records: list[RecordLine], profile: ClusterProfile | None, words: list[list[str]]
    ) -> None:
        """Write the report."""
        from fedkin.experiment.disclosure import disclosed
        from fedkin.report.page import give_names, write_page
        from fedkin.report.run_page import page_of_run

        parts = [disclosed(self.config, self.folder, state.steps)]
        nodes = self.method.nodes(state) if isinstance(self.method, HasNodes) else None
        if self.changes is not None:
            nodes = None if nodes is None else nodes._replace(clusters=self.changes.given.by_cluster[nodes.clusters])
            parts = [self.changes.part(), *parts]
        path, outcome = self.folder / run_folder.REPORT, (records, self.method.result(state), profile, words, nodes)
        write_page(path, page_of_run(self.config, self.population, self.preparation, *outcome, parts))
        if names := run_folder.read_names(self.folder):
            give_names(path, names)

    def _write_results(self, result: Mapping[str, Any]) -> tuple[ClusterProfile | None, list[list[str]]]:
        """Write the clusters, with their numbers, the models and all that `fedkin predict` needs.

        Returns the profile of the clusters and the words that distinguish them, as far as there are any.
        """
        folder, config, population = self.folder, self.config, self.population
        profile: ClusterProfile | None = None
        words: list[list[str]] = []
        # Clients are asked to describe clusters after the last step, so that it cannot affect the run.
        from fedkin.data.cluster_words import words_of_clusters
        from fedkin.data.profile import profile_clusters

        if self.fed.present and self.method.traits.clusters == "samples" and not self.method.is_private():
            n_clusters, least, encoding = int(result["n_clusters"]), config.data.min_members, self.preparation.table
            with one_thread():
                profile = None if encoding is None else profile_clusters(self.fed, encoding, n_clusters, least)
            words = words_of_clusters(self.fed, n_clusters, least) if self.preparation.has_texts else []
        ready = clustered(self.fed)
        if self.changes is not None:
            numbers = self.changes.given
            profile = None if profile is None else numbers.of_profile(profile)
            result, words = numbers.of_result(result), numbers.of_words(words)
            for client in ready:
                client.state.update(numbers.of_state(client.state))
        for client in ready:
            if (text := run_folder.labels_of(client.table, client.state)) is not None:
                write_atomically(run_folder.label_file(folder, client.id, population.names), text)
        if (labels := result.get("labels")) is not None:
            columns: run_folder.Columns = {"client": list(range(len(labels))), "cluster": labels.tolist()}
            columns |= {"name": names} if (names := short_names(population.names)) else {}
            columns |= run_folder.cluster_columns(labels, None, result.get("memberships"))
            write_atomically(folder / run_folder.CLIENTS, run_folder.as_csv(columns))
        reading = {**config.table.of_files, "label": config.data.label}
        description = (self.preparation, population, profile, words, reading)
        run_folder.write_result(folder, config.method_name, dict(result), *description)
        if self.changes is None or self.earlier is not None:  # else it has what was asked for them
            write_atomically(folder / run_folder.MESSAGES, json.dumps(self.fed.by_task, indent=2) + "\n")
        if self.changes is not None and self.earlier is not None:
            if self.changes.names:
                write_names(folder, self.changes.names)
            write_atomically(folder / CHANGES, json.dumps(asdict(self.changes), indent=2, ensure_ascii=False) + "\n")
        return profile, words

    def last_state(self) -> State:
        """Restore the federation and the method's state from the checkpoint."""
        assert self.checkpoint is not None
        state = run_folder.restore_checkpoint(self.fed, self.method.state_type, self.checkpoint)
        if isinstance(self.fed, LocalFederation):
            for i in self.fed.present:
                restore_preparation(self.fed.clients[i])
        self.fed.refresh()
        self.populate(state.steps)
        return state

    def judge(self, state: State, record: Record | None) -> Mapping[str, Any]:
        """Evaluate the clusters after a step, the models too where they are due."""
        if record is None:
            return {}
        from fedkin.experiment.evaluation import evaluator_for

        models_too = state.finished or state.steps % self.config.evaluation.every == 0
        self.fed.refresh()
        evaluate = evaluator_for(self.method, models_too) if self.population.clients else None
        return evaluate(self.method, self.population, self.fed, state) if evaluate else {}

    def keep(self, state: State, timing: Timing, line: RecordLine | None) -> State:
        """Write the checkpoint, and return the state that it gives back; the first step's time has the preparation."""
        if line is None:
            timing = {**timing, "seconds": round(time.perf_counter() - self.began, 3)}
        tree = {**run_folder.snapshot(self.fed, state), "preparation": owned(self.preparation.tree())}
        tree["experiment"] = run_folder.experiment_of(self.config)
        self.callbacks.checkpoint(tree, timing, line)
        return run_folder.restore_checkpoint(self.fed, self.method.state_type, tree)
