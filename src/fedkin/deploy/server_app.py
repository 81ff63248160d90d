"""Flower server app of an experiment on the connected sites."""

from __future__ import annotations

import json
import logging
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedkin.core import FedkinError, Payload
from fedkin.core.files import folder_lock, read_json, write_atomically, write_secret
from fedkin.core.runner import Callback, Progress, RecordLine, Timing
from fedkin.core.tasks import named_object
from fedkin.data.checks import check_labels
from fedkin.data.dataset import in_order
from fedkin.data.names import expanded
from fedkin.data.population import Population
from fedkin.data.profile import ClusterProfile
from fedkin.deploy.app_folder import check_federated, check_sites
from fedkin.engines.flower_engine.grid import FlowerFederation, Roster
from fedkin.experiment.config import Config, load_config
from fedkin.experiment.outcome import cluster_lines
from fedkin.experiment.outputs import load_description
from fedkin.experiment.run import Run, RunOutcome
from fedkin.experiment.run_folder import CHECKPOINT, CONFIG, LEDGER, RECORDS, RESULT, write_config
from fedkin.experiment.terminal_tables import table_text
from fedkin.report.measures import privacy_of_samples
from fedkin.report.numbers import join_words, pluralize
from fedkin.report.words import word_lines
from fedkin.secure_aggregation.sums import direct_failures

SITES = "sites.json"
_LABELS = "'label' in a site's own site.toml names their column, and sites without labels cannot take part"


@dataclass
class _Visit:
    """What is noted of a site, see `Attendance`."""

    first: int
    now: str = ""
    since: str = ""
    replied: int = 0
    why: str = ""


@dataclass
class _Visits:
    """Content of ``sites.json``."""

    step: int = 0
    sites: dict[str, _Visit] = field(default_factory=dict)


class Attendance(Callback):
    """Callback that writes ``sites.json`` to a run's folder after every step: who is there, and who was when.

    It has the last ``step``, and by name the ``sites``, in order of id: ``first``, the step that one could first take
    part in; ``replied``, the last step in which it gave a usable reply, 0 if it never did; ``now``, "there", "away",
    "left out" of the run or "forgotten", ``since`` a time in UTC; and ``why`` it gave no reply in the last step, empty
    if it did or was not asked. `on_joined` is called when sites have joined, before the step's checkpoint.
    """

    def __init__(self, folder: Path, fed: FlowerFederation, on_joined: Callable[[], None]) -> None:
        self.path, self.fed, self.on_joined = folder / SITES, fed, on_joined
        self.visits = _Visits()
        self._seats = len(fed.seats)

    def begin(self) -> None:
        if self.path.exists():
            self.visits = read_json(self.path, _Visits, "; remove it, and the run continues")

    def checkpoint(self, tree: Mapping[str, Any], timing: Timing, line: RecordLine | None) -> None:
        if len(self.fed.seats) > self._seats:
            self._seats = len(self.fed.seats)
            self.on_joined()

    def step(self, line: RecordLine, timing: Timing) -> None:
        self.visits.step = line["step"]
        connected = self.fed.roster.there()
        for client, name in enumerate(self.fed.seats):
            visit = self.visits.sites.setdefault(name, _Visit(line["step"]))
            status = "left out" if client in self.fed.dropped else "there" if name in connected else "away"
            status = "forgotten" if name in self.fed.roster.forgotten else status
            if visit.now != status:
                visit.now, visit.since = status, datetime.now(UTC).isoformat(timespec="seconds")
            if client in line["answered"]:
                visit.replied = line["step"]
            visit.why = line["missing"].get(str(client), "")
        write_atomically(self.path, json.dumps(asdict(self.visits), indent=2) + "\n")


def sites_text(folder: Path, as_json: bool) -> str:
    """Return the sites' attendance, from the results of a real federation, as a table or as JSON, see `Attendance`.

    Raises FedkinError if there is no ``sites.json`` in `folder`, or it is damaged.
    """
    writer = "; a real federation's server writes it beside its results, after each step"
    if not (folder / SITES).exists():
        raise FedkinError(f"{folder / SITES} is not there{writer}.")
    visits = read_json(folder / SITES, _Visits, writer)
    if as_json:
        return json.dumps(asdict(visits), indent=2)
    rows = [
        (name, site.now, site.since, str(site.first), str(site.replied or "never"), site.why)
        for name, site in visits.sites.items()
    ]
    header = ("site", "now", "since", "first step", "last reply", "why")
    return f"After step {visits.step}:\n{table_text([header, *rows], left=(0, 1, 2, 5))}"


@dataclass
class _Ledger:
    """Record of a run's token, initial sites and classes: the sites' identities, and the keys bound to their names."""

    run: str
    sites: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)


def server_app(folder: Path) -> ServerApp:
    """Return the server's app, for the app folder `folder`.

    Its run configuration names the ``experiment``, a file in that folder; ``out``, where results go; and, of an app for
    Flower Hub, ``sites``, how many there are, where 0 means as many as are connected when the run starts. If ``out``
    holds the same experiment already, the run resumes from its last checkpoint.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run = context.run_config
        with refusals_in_the_log():
            sites = []
            if "sites" in run:
                while not (count := int(run["sites"]) or len(list(grid.get_node_ids()))):
                    time.sleep(0.5)
                sites = [f"federation.sites={count}"]
            config = load_config(folder / str(run["experiment"]), sites)
            out = expanded(str(run["out"]))
            serve(grid, config, out.absolute() if sites else out)  # on the Hub's servers nobody knows where it is

    return app


@contextmanager
def refusals_in_the_log() -> Iterator[None]:
    """Log a `FedkinError` as one sentence and end the server app with it; a context manager.

    Flower notes the error with the run, and its own words on it stay out of the log. In a simulation's thread, the app
    ends with exit code 2.
    """
    try:
        yield
    except FedkinError as error:
        print(f"fedkin: {error}", file=sys.stderr, flush=True)
        time.sleep(1)  # then `flwr run --stream` shows it; whatever ends the process ends Flower's upload
        if threading.current_thread() is not threading.main_thread():
            raise SystemExit(2) from error
        # What is no `Exception` would leave the run under way until Flower misses its heartbeat, after a minute.
        logging.getLogger("flwr").addFilter(_is_news)
        raise


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a line of Flower's log says something else than that a `FedkinError` was raised."""
    is_ours = isinstance(record.exc_info, tuple) and isinstance(record.exc_info[1], FedkinError)
    return not is_ours and not record.getMessage().startswith("Exit Code: ")


def serve(grid: Grid, config: Config, folder: Path) -> RunOutcome:
    """Run or resume an experiment on the sites that a grid reaches.

    ``federation.sites`` says how many sites there are; by default, as many as ``[federation]`` lists. `folder` is for
    the results, and for what resuming needs. Raises FedkinError if the sites do not connect, another process works in
    `folder`, it holds something else, the method's network cannot be imported, or a tool that tracks the run is not
    installed or cannot be opened.
    """
    config.tracking.check_installed()
    module = str(getattr(config.method, "module", ""))
    if ":" in module:
        named_object(module, "Model")  # before sites are waited for
    with folder_lock(folder):
        _claim(config, folder)
        progress = _LogProgress()
        ledger = _Ledger(secrets.token_hex(8))
        if (folder / LEDGER).exists():
            ledger = read_json(folder / LEDGER, _Ledger, "; the run cannot be resumed")
        federation, order = config.federation, list(ledger.sites)
        count = federation.sites or len(federation.listed)
        names = {
            order[site] if isinstance(site, int) and site < len(order) else str(site) for site in federation.forgotten
        }
        roster = Roster(
            grid,
            ledger.sites,
            progress.phase,
            labels=config.method.traits.clusters == "clients",
            keys=ledger.keys,
            listed=federation.listed,
            newcomers=federation.newcomers,
            forgotten=names,
        )
        members = roster.gather(count, federation.patience)
        order = order or [member.name for member in members]
        members = [member for member in members if member.name in order]  # the others join in the next step
        by_site = {member.name: member.classes for member in members}
        classes = ledger.classes if (folder / CHECKPOINT).exists() else []  # sites that are away now have some, too
        classes = roster.classes = classes or in_order(name for named in by_site.values() for name in named)
        _keep_ledger(folder, ledger.run, roster, order)
        fed = FlowerFederation(
            roster,
            ledger.run,
            config.seed,
            federation.timeout,
            classes,
            order=order,
            newcomers=max(0, count + federation.newcomers - len(order)),
            quorum=federation.quorum,
            counts_late=federation.late_replies == "count",
            min_clients=federation.min_clients,
            on_drop=progress.warn,
            labels_advice=_LABELS,
        )
        progress.names = fed.names
        attendance = Attendance(folder, fed, lambda: _keep_ledger(folder, ledger.run, roster, fed.seats))
        features = list(dict.fromkeys(name for member in members for name in member.features))
        forgotten = [site for site in federation.forgotten if isinstance(site, int) or site in fed.names]
        spelt, apart = check_labels(by_site)
        population = Population([], None, classes, features, fed.names, notes=(*spelt, *apart))
        run = Run(config, folder, population.forgetting(forgotten), fed, progress, [attendance])
        outcome = run.finish()
        _hand_out(fed, run, outcome)
        profile, words = load_description(folder)
        _say_clusters(config, run.method.result(outcome.state), profile)
        if (privacy := privacy_of_samples(outcome.records)) is not None:
            _log(f"Privacy of a sample: {privacy}")
        for line in [*cluster_lines(profile, fed.names), *word_lines(words)]:
            _log(line)
        _log(f"Done; results are in {folder}")
        return outcome


class _LogProgress(Progress):
    """Progress as lines of the server's log, one per phase and step.

    `names` are those of the sites, in order of id, once they are known.
    """

    def __init__(self) -> None:
        self.names: Sequence[str] = ()

    def phase(self, text: str) -> None:
        _log(text)

    def step(self, line: RecordLine, timing: Timing) -> None:
        missing = {int(site): reason for site, reason in line["missing"].items()}
        lost = direct_failures(missing)
        words = "".join(f"; site {self._name(site)} missing ({reason})" for site, reason in lost.items())
        if without_sum := [self._name(site) for site in missing if site not in lost]:
            words += f"; too few were left for the sum of {join_words(without_sum)}, so they are asked again"
        _log(f"Step {line['step']} in {timing['seconds']:.1f} s{words}")

    def _name(self, site: int) -> str:
        return f"'{self.names[site]}'" if site < len(self.names) else str(site)

    def warn(self, text: str) -> None:
        _log(text)


def _log(text: str) -> None:
    print(f"fedkin: {text}", flush=True)


def _say_clusters(config: Config, result: Mapping[str, Any], profile: ClusterProfile | None) -> None:
    """Log the number of clusters; of samples it is an upper bound where no site reports some of them."""
    count = result.get("n_clusters")
    if not isinstance(count, int):
        return
    is_sure = config.method.traits.clusters == "clients" or (profile is not None and bool((profile.samples > 0).all()))
    _log(f"Found {'' if is_sure else 'at most '}{pluralize(count, 'cluster')} of {config.method.traits.clusters}")


def _claim(config: Config, folder: Path) -> None:
    """Assign `folder` to this experiment, or check that it belongs to it."""
    if config.federation.sites is None and not config.federation.listed:
        raise FedkinError("'federation.sites' has no default on a real federation; give the number of sites.")
    check_federated(config)
    check_sites(config)
    path = folder / CONFIG
    if not path.exists():
        write_config(folder, config)
    elif not _is_that_of(path, config):
        if any((folder / name).exists() for name in (CHECKPOINT, RECORDS, RESULT)):
            raise FedkinError(
                f"{folder} holds another experiment; give another folder, as in flwr run . federation -c "
                "'out=\"results-2\"'."
            )
        (folder / LEDGER).unlink(missing_ok=True)  # that run never began, so that its mistakes can be mended
        write_config(folder, config)


def _is_that_of(path: Path, config: Config) -> bool:
    """Return whether a run's file has this experiment; an earlier fedkin's lacks options, which have their defaults."""
    try:
        return load_config(path).to_toml() == config.to_toml()
    except FedkinError:
        return False


def _keep_ledger(folder: Path, run: str, roster: Roster, order: Sequence[str]) -> None:
    """Write the record of the participating sites, in order of id."""
    members = [roster.members[name] for name in order]
    keys = {member.name: member.key for member in members if member.key}
    ledger = _Ledger(run, {member.name: member.identity for member in members}, keys, roster.classes)
    write_secret(folder / LEDGER, (json.dumps(asdict(ledger), indent=2) + "\n").encode())


def _hand_out(fed: FlowerFederation, run: Run, outcome: RunOutcome) -> None:
    """Send every site its part of the result to save."""
    result = run.method.result(outcome.state)
    outside = {*fed.participation.free, *run.population.forgotten}
    for client, reason in fed.conclude({i: _part(run, result, i) for i in fed.ids if i not in outside}).items():
        _log(f"Site '{fed.names[client]}' has not kept its results: {reason}")


def _part(run: Run, result: dict[str, Any], client: int) -> Payload:
    """Return a site's part of the result: its cluster's model, if any. It has the clusters of its samples already."""
    method: Any = run.method
    if method.traits.clusters != "clients" or not result["module"]:
        return {}
    share = {
        "cluster": int(result["labels"][client]),
        "n_clusters": result["n_clusters"],
        "labels": torch.zeros(1, dtype=torch.int64),
        "models": method.model_of(result, client)[None],
        "module": result["module"],
        "training": result["training"],
        **({"choices": {}} if "choices" in result else {}),
    }
    return {
        "method": run.config.method_name,
        "result": share,
        "preparation": run.preparation.for_clients().tree(),
        "classes": run.population.classes,
    }
