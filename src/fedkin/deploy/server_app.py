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
from fedkin.core.progress import Callback, Progress, RecordLine, Timing
from fedkin.core.tasks import named_object
from fedkin.data.checks import check_labels
from fedkin.data.dataset import in_order
from fedkin.data.names import expanded
from fedkin.data.population import Population
from fedkin.data.profile import ClusterProfile
from fedkin.deploy.app_folder import check_federated, check_sites
from fedkin.engines.flower_engine.grid import FlowerFederation
from fedkin.engines.flower_engine.roster import Roster
from fedkin.experiment.config import Config, load_config
from fedkin.experiment.outputs import load_profile
from fedkin.experiment.run import Run, RunOutcome, prepare
from fedkin.experiment.run_folder import CHECKPOINT, CONFIG, LEDGER, RECORDS, RESULT, write_config
from fedkin.experiment.terminal import cluster_lines
from fedkin.experiment.terminal_tables import table_text
from fedkin.report.measures import privacy_of_samples
from fedkin.report.numbers import join_words, pluralize
from fedkin.secure_aggregation.sums import direct_failures

# Attendance of a real federation's sites, in the file ``sites.json`` beside the results.


SITES = "sites.json"
_LABELS = "'label' in a site's own site.toml names their column, and sites without labels cannot take part"
_COLUMNS = ("site", "now", "since", "first step", "last reply", "why")


@dataclass
class Presence:
    """Attendance of one site.

    `first` is the first step that it could take part in, and `replied` the last in which it gave a usable reply, 0 if
    it never did. `now` it is "there", "away", "left out" of the run, or "forgotten", `since` a time in UTC. `why` it
    gave no reply in the last step is empty if it did, or was not asked.
    """

    first: int
    now: str = ""
    since: str = ""
    replied: int = 0
    why: str = ""


@dataclass
class Sites:
    """Content of ``sites.json``: the last step, and the sites in order of id."""

    step: int = 0
    sites: dict[str, Presence] = field(default_factory=dict)


class Attendance(Callback):
    """Callback that writes ``sites.json`` to a run's folder after every step.

    `on_joined` is called when sites have joined, before the step's checkpoint.
    """

    def __init__(self, folder: Path, fed: FlowerFederation, on_joined: Callable[[], None]) -> None:
        self.path, self.fed, self.on_joined = folder / SITES, fed, on_joined
        self.found = Sites()
        self._seats = len(fed.seats)

    def begin(self) -> None:
        if self.path.exists():
            self.found = read_json(self.path, Sites, "; remove it, and the run continues")

    def checkpoint(self, tree: Mapping[str, Any], timing: Timing, line: RecordLine | None) -> None:
        if len(self.fed.seats) > self._seats:
            self._seats = len(self.fed.seats)
            self.on_joined()

    def step(self, line: RecordLine, timing: Timing) -> None:
        self.found.step, there = line["step"], self.fed.roster.there()
        for client, name in enumerate(self.fed.seats):
            site = self.found.sites.setdefault(name, Presence(line["step"]))
            now = "left out" if client in self.fed.dropped else "there" if name in there else "away"
            now = "forgotten" if name in self.fed.roster.forgotten else now
            if site.now != now:
                site.now, site.since = now, datetime.now(UTC).isoformat(timespec="seconds")
            site.replied = line["step"] if client in line["answered"] else site.replied
            site.why = line["missing"].get(str(client), "")
        write_atomically(self.path, _json_of(self.found) + "\n")


def json_of_sites(folder: Path) -> str:
    """Read the sites' attendance as JSON text of `Sites`; raises as `table_of_sites` does."""
    return _json_of(_read(folder))


def table_of_sites(folder: Path) -> str:
    """Format the sites' attendance as a table, from the results of a real federation.

    Raises FedkinError if there is no ``sites.json`` in `folder`, or it is damaged.
    """
    found = _read(folder)
    rows = [
        (name, site.now, site.since, str(site.first), str(site.replied) if site.replied else "never", site.why)
        for name, site in found.sites.items()
    ]
    return f"After step {found.step}:\n{table_text([_COLUMNS, *rows], left=(0, 1, 2, 5))}"


def _read(folder: Path) -> Sites:
    if not (folder / SITES).exists():
        raise FedkinError(
            f"{folder / SITES} is not there; a real federation's server writes it beside its results, after each step."
        )
    return read_json(folder / SITES, Sites, "; a real federation's server writes it beside its results")


def _json_of(found: Sites) -> str:
    return json.dumps(asdict(found), indent=2)


_SAID_EVERY = 60.0
"""Seconds after which a long step has another line in the log."""
_UPLOADED = 1.0
"""Seconds after which `flwr run --stream` shows what was printed; whatever ends the process ends Flower's upload."""


@dataclass
class _Ledger:
    """Record of a run's token, initial sites and classes: the sites' identities, and the keys bound to their names."""

    run: str
    sites: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)


def server_app(folder: Path) -> ServerApp:
    """Return the server's app, for the app folder `folder`.

    Its run configuration names the ``experiment``, a file in that folder, and ``out``, where results go. If ``out``
    holds the same experiment already, the run resumes from its last checkpoint.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        with refusals_in_the_log():
            config = _experiment(folder / str(context.run_config["experiment"]))
            serve(grid, config, expanded(str(context.run_config["out"])))

    return app


def _experiment(path: Path) -> Config:
    """Read the experiment; an error calls the file by its name, for `path` is that of Flower's copy."""
    try:
        return load_config(path)
    except FedkinError as error:
        raise FedkinError(str(error).replace(str(path), path.name)) from error


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
        time.sleep(_UPLOADED)
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
        ledger = _ledger(folder)
        labels, listed = config.method.traits.clusters == "clients", config.federation.listed
        federation, order = config.federation, list(ledger.sites)
        wanted = federation.sites or len(listed)
        names = {order[one] if isinstance(one, int) and one < len(order) else str(one) for one in federation.forgotten}
        asked = config.data.of_columns
        seats = (ledger.keys, listed, federation.newcomers, names)
        roster = Roster(grid, ledger.sites, progress.phase, labels, *seats, asked)
        members = roster.gather(wanted, federation.patience)
        order = order or [member.name for member in members]
        members = [member for member in members if member.name in order]  # the others join in the next step
        by_site = {member.name: member.classes for member in members}
        kept = ledger.classes if (folder / CHECKPOINT).exists() else []  # sites that are away now have classes, too
        classes = roster.classes = kept or in_order(name for own in by_site.values() for name in own)
        _keep_ledger(folder, ledger.run, roster, order)
        fed = FlowerFederation(
            roster,
            ledger.run,
            config.seed,
            federation.timeout,
            classes,
            on_progress=progress.part,
            order=order,
            newcomers=max(0, wanted + federation.newcomers - len(order)),
            quorum=federation.quorum,
            counts_late=federation.late == "count",
            min_clients=federation.min_clients,
            on_drop=progress.warn,
            labels_advice=_LABELS,
        )
        progress.names = fed.names
        attendance = Attendance(folder, fed, lambda: _keep_ledger(folder, ledger.run, roster, fed.seats))
        features = list(dict.fromkeys(name for member in members for name in member.features))
        forgotten = [one for one in federation.forgotten if isinstance(one, int) or one in fed.names]
        spelt, apart = check_labels(by_site)
        everybody = Population([], None, classes, features, fed.names, notes=(*spelt, *apart))
        population = everybody.forgetting(forgotten)
        run = prepare(config, folder, population, fed, progress, [attendance])
        outcome = run.finish()
        _hand_out(fed, run, outcome)
        profile = load_profile(folder)
        _say_clusters(config, run.method.result(outcome.state), profile)
        if (privacy := privacy_of_samples(outcome.records)) is not None:
            _log(f"Privacy of a sample: {privacy}")
        for line in cluster_lines(profile, fed.names):
            _log(line)
        _log(f"Done; results are in {folder}")
        return outcome


class _LogProgress(Progress):
    """Progress as lines of the server's log: one per phase and step, and within a long one one per minute.

    `names` are those of the sites, in order of id, once they are known.
    """

    def __init__(self) -> None:
        self.names: Sequence[str] = ()
        self._requests, self._said, self._began = 0, time.monotonic(), time.monotonic()

    def phase(self, text: str) -> None:
        self._requests, self._said, self._began = 0, time.monotonic(), time.monotonic()
        _log(text)

    def part(self, done: int, total: int) -> None:
        now = time.monotonic()
        self._requests += done == 1
        if now - self._said >= _SAID_EVERY:
            self._said = now
            seconds = now - self._began
            _log(f"Request {self._requests} of this step, {done} of {total} sites have replied after {seconds:.0f} s")

    def step(self, line: RecordLine, timing: Timing) -> None:
        missing = {int(site): reason for site, reason in line["missing"].items()}
        lost = direct_failures(missing)
        words = "".join(f"; site {self._name(site)} missing ({reason})" for site, reason in lost.items())
        if others := [self._name(site) for site in missing if site not in lost]:
            words += f"; too few were left for the sum of {join_words(others)}, so they are asked again"
        _log(f"Step {line['step']} in {timing['seconds']:.1f} s{words}")

    def _name(self, site: int) -> str:
        return f"'{self.names[site]}'" if site < len(self.names) else str(site)

    def warn(self, text: str) -> None:
        _log(text)


def _log(text: str) -> None:
    print(f"fedkin: {text}", flush=True)


def _say_clusters(config: Config, found: Mapping[str, Any], profile: ClusterProfile | None) -> None:
    """Log the number of clusters; of samples it is an upper bound where no site reports some of them."""
    count = found.get("n_clusters")
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
    text = config.to_toml()
    if path.read_text(encoding="utf-8") == text:
        return True
    try:
        return load_config(path).to_toml() == text
    except FedkinError:
        return False


def _ledger(folder: Path) -> _Ledger:
    """Read the record of the run's token and initial sites, with their identities and keys."""
    path = folder / LEDGER
    if not path.exists():
        return _Ledger(secrets.token_hex(8))
    return read_json(path, _Ledger, "; the run cannot be resumed")


def _keep_ledger(folder: Path, run: str, roster: Roster, order: Sequence[str]) -> None:
    """Write the record of the participating sites, in order of id."""
    members = [roster.members[name] for name in order]
    keys = {member.name: member.key for member in members if member.key}
    ledger = _Ledger(run, {member.name: member.identity for member in members}, keys, roster.classes)
    write_secret(folder / LEDGER, (json.dumps(asdict(ledger), indent=2) + "\n").encode())


def _hand_out(fed: FlowerFederation, run: Run, outcome: RunOutcome) -> None:
    """Send every site its part of the result to save."""
    found = run.method.result(outcome.state)
    parts = {
        i: _part(run, found, i)
        for i in fed.ids
        if i not in fed.participation.free and i not in run.population.forgotten
    }
    for client, reason in fed.conclude(parts).items():
        _log(f"Site '{fed.names[client]}' has not kept its results: {reason}")


def _part(run: Run, found: dict[str, Any], client: int) -> Payload:
    """Return a site's part of the result: its cluster's model, if any.

    The clusters of its samples are at the site already.
    """
    method: Any = run.method
    if method.traits.clusters != "clients" or not found["module"]:
        return {}
    own = {
        "cluster": int(found["labels"][client]),
        "n_clusters": found["n_clusters"],
        "labels": torch.zeros(1, dtype=torch.int64),
        "models": method.model_of(found, client)[None],
        "module": found["module"],
        "training": found["training"],
        **({"choices": {}} if "choices" in found else {}),
    }
    return {
        "method": run.config.method_name,
        "result": own,
        "preparation": run.preparation.for_clients().tree(),
        "classes": run.population.classes,
    }
