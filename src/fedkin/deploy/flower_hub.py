"""Server and client apps of a folder for Flower Hub, which run in simulation on built-in data or at real sites."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from flwr.app import Context
from flwr.clientapp import ClientApp

from fedkin import __version__
from fedkin.core import FedkinError
from fedkin.core.files import check_empty
from fedkin.data.population import Population
from fedkin.deploy.app_folder import (
    check_federated,
    lines_of_sites,
    own_packages,
    what_to_install,
    write_app,
)
from fedkin.deploy.site_app import keep, site_of
from fedkin.engines.flower_engine.node_app import client_app as answering
from fedkin.engines.flower_engine.version import NEWEST, OLDEST
from fedkin.engines.site import Site
from fedkin.experiment.config import load_config
from fedkin.experiment.simulated_clients import simulated_site

_SIMULATED = ("partition-id", "num-partitions")


def client_app(folder: Path) -> ClientApp:
    """Return the client app: a site with its own file or, in a simulation, one with a part of built-in data.

    Its run configuration names the ``experiment``, and ``demo-data``, which a simulation partitions.
    """

    def site(context: Context) -> Site:
        if "site" in context.node_config or not all(name in context.node_config for name in _SIMULATED):
            return site_of(context)
        return _simulated(folder, context)

    return answering(site, keep)


def _simulated(folder: Path, context: Context) -> Site:
    """Build a site of a simulation: its part of the data, and a private folder for this run."""
    partition, count = (int(context.node_config[name]) for name in _SIMULATED)
    run = context.run_config
    population = _population(folder / str(run["experiment"]), str(run["demo-data"]), count)
    user = str(os.getuid()) if hasattr(os, "getuid") else "own"  # on Windows temporary folders are users' own
    name, private = f"site-{partition:04}", Path(tempfile.gettempdir()) / f"fedkin-{user}-{context.run_id}"
    site = simulated_site(population, partition, name, private / name)
    packages = own_packages(load_config(folder / str(run["experiment"])))  # of the app that runs here anyhow
    return replace(site, packages=("fedkin", *packages))


@lru_cache(maxsize=1)
def _population(experiment: Path, data: str, clients: int) -> Population:
    """Build the sites of a simulation, with label skew or, to cluster clients, flipped labels; cached."""
    federated = load_config(experiment)
    scenario = "label-flip" if federated.method.traits.clusters == "clients" else "label-skew"
    partition = [f"simulation.scenario={scenario}", f"simulation.clients={clients}"]
    settings = [f"data.source={data}", *partition, f"seed={federated.seed}"]
    config = load_config(federated.method_name, settings)
    population: Population = config.scenario.build(config.data_seed)
    return population


# App folder for Flower Hub that ``fedkin federation init --hub`` writes.


_TEMPLATES = {
    "pyproject.toml": "flower_hub/project.toml",
    "README.md": "flower_hub/README.md",
    "LICENSE": "flower_hub/LICENSE",
    ".gitignore": "flower_hub/gitignore",
    "{package}/__init__.py": "package.py",
    "{package}/server_app.py": "flower_hub/hub_server_app.py",
    "{package}/client_app.py": "flower_hub/hub_client_app.py",
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,31}")
"""Names that Flower Hub takes, of apps and of their folders."""


def init_hub(folder: Path, experiment: str, settings: Sequence[str], publisher: str) -> None:
    """Write an app folder for Flower Hub, new or empty, whose name is the app's.

    `experiment` is a method's name or a ``.toml`` file; `settings` are ``section.key=value``, see
    `fedkin.experiment.config.load_config`; `publisher` is the name of the account that will publish it. Raises
    FedkinError if the folder holds anything, Flower Hub does not allow a name, or the experiment is not allowed, moves
    data or lists clients.
    """
    check_empty(folder, "give a new one")
    name = folder.resolve().name
    for what, text in (("The folder's name", name), ("The publisher", publisher)):
        if not _NAME.fullmatch(text):
            raise FedkinError(
                f"{what} is '{text}'; Flower Hub takes letters, digits and hyphens, at most 32, the first a letter."
            )
    federated = [
        "data.source=federation",
        "simulation.scenario=files",
        "simulation.engine=flower",
        "federation.sites=1",
    ]
    config = load_config(experiment, [*federated, *settings])
    check_federated(config)
    if config.federation.listed:
        raise FedkinError(
            "[federation] lists clients, but the clients of an app of Flower Hub are not known in advance."
        )
    package = name.lower().replace("-", "_")
    words = {
        "name": name,
        "package": package,
        "publisher": publisher,
        "method": config.method_name,
        "columns": lines_of_sites(config),
        "packages": "\n".join([*lines, "", ""]) if (lines := what_to_install(config)) else "",
        "clusters": config.method.traits.clusters or "samples",
        "oldest": OLDEST.removesuffix(".0"),
        "target": NEWEST,
        "fedkin": __version__,
    }
    write_app(folder, {path.format(package=package): template for path, template in _TEMPLATES.items()}, words, config)
