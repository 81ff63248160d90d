"""Flower server app of an experiment on the connected sites."""

from __future__ import annotations

import json
import logging
import secrets
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedkin.core import FedkinError, Payload
from fedkin.core.files import folder_lock, read_json, read_tables, write_secret
from fedkin.core.runner import Progress, RecordLine, Timing
from fedkin.core.tasks import named_object
from fedkin.data.checks import check_labels
from fedkin.data.names import expanded
from fedkin.data.population import Population
from fedkin.data.tables import in_order
from fedkin.deploy.app_folder import check_federated
from fedkin.engines.flower_engine.grid import FlowerFederation, Roster
from fedkin.experiment.config import Config, config_of, load_config
from fedkin.experiment.outcome import cluster_lines
from fedkin.experiment.run import Run, RunOutcome
from fedkin.experiment.run_folder import (
    CHECKPOINT,
    CONFIG,
    LEDGER,
    RECORDS,
    RESULT,
    write_config,
)
from fedkin.report.measures import privacy_of_samples
from fedkin.report.numbers import pluralize
from fedkin.report.words import word_lines
from fedkin.secure_aggregation.sums import direct_failures


@dataclass
class _Ledger:
    """A run's token, its sites' identities in order of id, the keys that names are bound to, and classes."""

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
        run = context.run_config
        with refusals_in_the_log():
            serve(grid, load_config(folder / str(run["experiment"])), expanded(str(run["out"])))

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
        exit_line = "Exit Code: "
        logging.getLogger("flwr").addFilter(lambda line: not line.exc_info and exit_line not in line.getMessage())
        raise


def serve(grid: Grid, config: Config, folder: Path) -> RunOutcome:
    """Run or resume an experiment on the sites that a grid reaches.

    ``federation.sites`` says how many sites there are; by default, as many as ``[federation]`` lists. `folder` is for
    the results, and for what resuming needs. Raises FedkinError if the sites do not connect, another process works in
    `folder`, it holds something else, or the method's network cannot be imported.
    """
    module = str(getattr(config.method, "module", ""))
    if ":" in module:
        named_object(module, "Model")  # before sites are waited for
    with folder_lock(folder):
        config = _claimed(config, folder)
        ledger = _Ledger(secrets.token_hex(8))
        if (folder / LEDGER).exists():
            ledger = read_json(folder / LEDGER, _Ledger, "; the run cannot be resumed")
        federation, order = config.federation, list(ledger.sites)
        count = federation.sites or len(federation.listed)
        forgotten = {
            order[site] if isinstance(site, int) and site < len(order) else str(site) for site in federation.forgotten
        }
        roster = Roster(
            grid,
            ledger.sites,
            _log,
            labels=config.method.traits.clusters == "clients",
            keys=ledger.keys,
            listed=federation.listed,
            forgotten=forgotten,
        )
        members = roster.gather(count, federation.patience)
        order += [member.name for member in members if member.name not in order]
        by_site = {member.name: member.classes for member in members}
        # Sites that are away when a run resumes have classes, too.
        classes = ledger.classes if (folder / CHECKPOINT).exists() else []
        classes = classes or in_order(name for named in by_site.values() for name in named)

        ledger = _Ledger(
            ledger.run,
            {name: roster.members[name].identity for name in order},
            {name: key for name in order if (key := roster.members[name].key)},
            classes,
        )
        write_secret(folder / LEDGER, (json.dumps(asdict(ledger), indent=2) + "\n").encode())
        fed = FlowerFederation(
            roster,
            ledger.run,
            config.seed,
            federation.timeout,
            classes,
            order=order,
            min_clients=federation.min_clients,
            on_drop=_log,
        )
        features = list(dict.fromkeys(name for member in members for name in member.features))
        without = [site for site in federation.forgotten if isinstance(site, int) or site in fed.names]
        spelt, apart = check_labels(by_site)
        population = Population([], None, classes, features, fed.names, notes=(*spelt, *apart))
        run = Run(config, folder, population.forgetting(without), fed, _LogProgress(fed.names))
        outcome = run.finish()
        result = run.method.result(outcome.state)
        parts = {client: _part(run, result, client) for client in fed.ids if client not in run.population.forgotten}
        for client, reason in fed.conclude(parts).items():
            _log(f"Site '{fed.names[client]}' has not kept its results: {reason}")
        if isinstance(number := result.get("n_clusters"), int):
            kind, profile = config.method.traits.clusters, outcome.profile
            are_all_seen = kind == "clients" or (profile is not None and bool((profile.samples > 0).all()))
            _log(f"Found {'' if are_all_seen else 'at most '}{pluralize(number, 'cluster')} of {kind}")
        if (privacy := privacy_of_samples(outcome.records)) is not None:
            _log(f"Privacy of a sample: {privacy}")
        for line in [*cluster_lines(outcome.profile, fed.names), *word_lines(outcome.words)]:
            _log(line)
        _log(f"Done; results are in {folder}")
        return outcome


class _LogProgress(Progress):
    """Progress as lines of the server's log; `names` are those of the sites, in order of id."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def phase(self, text: str) -> None:
        _log(text)

    def step(self, line: RecordLine, timing: Timing) -> None:
        missing = {int(site): reason for site, reason in line["missing"].items()}
        lost = direct_failures(missing)
        words = "".join(f"; site '{self.names[site]}' missing ({reason})" for site, reason in lost.items())
        if unsummed := len(missing) - len(lost):
            words += f"; {unsummed} more are in no sum, as too few were left"
        _log(f"Step {line['step']} in {timing['seconds']:.1f} s{words}")

    def warn(self, text: str) -> None:
        _log(text)


def _log(text: str) -> None:
    print(f"fedkin: {text}", flush=True)


def _claimed(config: Config, folder: Path) -> Config:
    """Assign `folder` to this experiment, or check that it belongs to it, but for whose numbers of clusters it keeps.

    That `fedkin cut` says in the folder alone; the experiment is returned with it.
    """
    if config.federation.sites is None and not config.federation.listed:
        raise FedkinError("'federation.sites' has no default on a real federation; give the number of sites.")
    check_federated(config)
    path = folder / CONFIG
    if path.exists():
        like = read_tables(path).get("evaluation", {}).get("like")
        if config.evaluation.like is None and like is not None:
            config = config_of({**config.tables, "evaluation": {**config.tables["evaluation"], "like": like}})
        if path.read_text(encoding="utf-8") == config.to_toml():
            return config
    if path.exists() and any((folder / name).exists() for name in (CHECKPOINT, RECORDS, RESULT)):
        raise FedkinError(
            f"{folder} holds another experiment; give another folder, as in flwr run . federation -c "
            "'out=\"results-2\"'."
        )
    (folder / LEDGER).unlink(missing_ok=True)  # of a run that never began, so that its mistakes can be mended
    write_config(folder, config)
    return config


def _part(run: Run, result: dict[str, Any], client: int) -> Payload:
    """Return a site's part of the result: its cluster's model, or the numbers of its samples' clusters, if others."""
    method: Any = run.method
    if run.changes is not None:
        return {"numbers": torch.tensor(run.changes.numbers), "count": run.changes.count}
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
        "preparation": replace(run.preparation, notes=[], questions=(), centres=None).tree(),
        "classes": run.population.classes,
    }
