"""Server and client apps of a folder for Flower Hub, which run in simulation on built-in data or at real sites."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedkin import __version__
from fedkin.core import FedkinError
from fedkin.core.files import check_empty
from fedkin.data.names import expanded
from fedkin.data.population import Population
from fedkin.deploy.app_folder import (
    check_federated,
    columns_of_sites,
    own_packages,
    packages_line,
    what_to_install,
    write_app,
)
from fedkin.deploy.server_app import refusals_in_the_log, serve
from fedkin.deploy.site_app import keep, site_of
from fedkin.engines.flower_engine.node_app import client_app as answering
from fedkin.engines.flower_engine.version import NEWEST, OLDEST
from fedkin.engines.site import Site
from fedkin.experiment.config import load_config
from fedkin.experiment.simulated_clients import simulated_site

_PAUSE = 0.5
_SIMULATED = ("partition-id", "num-partitions")


def server_app(folder: Path) -> ServerApp:
    """Return the server's app, for the app folder `folder`.

    Its run configuration names the ``experiment``, a file in that folder; ``out``, where results go; and ``sites``, how
    many there are, where 0 means as many as are connected when the run starts. The log says where results are in full,
    because a relative path begins where the SuperLink was started.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run = context.run_config
        with refusals_in_the_log():
            sites = int(run["sites"]) or _connected(grid)
            config = load_config(folder / str(run["experiment"]), [f"federation.sites={sites}"])
            serve(grid, config, expanded(str(run["out"])).absolute())

    return app


def client_app(folder: Path) -> ClientApp:
    """Return the client app: a site with its own file or, in a simulation, one with a part of built-in data.

    Its run configuration names the ``experiment``, and ``demo-data``, which a simulation partitions.
    """

    def site(context: Context) -> Site:
        if "site" in context.node_config or not all(name in context.node_config for name in _SIMULATED):
            return site_of(context)
        return _simulated(folder, context)

    return answering(site, keep)


def _connected(grid: Grid) -> int:
    """Wait for nodes to connect, and return their number."""
    while not (found := len(list(grid.get_node_ids()))):
        time.sleep(_PAUSE)
    return found


def _simulated(folder: Path, context: Context) -> Site:
    """Build a site of a simulation: its part of the data, and a private folder for this run."""
    at, count = (int(context.node_config[name]) for name in _SIMULATED)
    run = context.run_config
    population = _population(folder / str(run["experiment"]), str(run["demo-data"]), count)
    name, private = f"site-{at:04}", Path(tempfile.gettempdir()) / f"fedkin-{_owner()}-{context.run_id}"
    site = simulated_site(population, at, name, private / name)
    own = own_packages(load_config(folder / str(run["experiment"])))  # of the app that runs here anyhow
    return replace(site, packages=("fedkin", *own))


def _owner() -> str:
    """Return the user id of this process, to separate users' temporary folders; on Windows they are separate."""
    return str(os.getuid()) if hasattr(os, "getuid") else "own"


@lru_cache(maxsize=1)
def _population(experiment: Path, data: str, clients: int) -> Population:
    """Build the sites of a simulation, with label skew or, to cluster clients, flipped labels; cached."""
    federated = load_config(experiment)
    scenario = "label-flip" if federated.method.traits.clusters == "clients" else "label-skew"
    partition = [f"simulation.scenario={scenario}", f"simulation.clients={clients}"]
    settings = [f"data.source={data}", *partition, f"seed={federated.seed}"]
    config = load_config(federated.method_name, settings)
    built: Population = config.scenario.build(config.data_seed)
    return built


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
    for what, given in (("The folder's name", name), ("The publisher", publisher)):
        if not _NAME.fullmatch(given):
            raise FedkinError(
                f"{what} is '{given}'; Flower Hub takes letters, digits and hyphens, at most 32, the first a letter."
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
        "columns": packages_line(config) + columns_of_sites(config),
        "packages": "\n".join([*own, "", ""]) if (own := what_to_install(config)) else "",
        "clusters": config.method.traits.clusters or "samples",
        "oldest": OLDEST.removesuffix(".0"),
        "target": NEWEST,
        "fedkin": __version__,
    }
    write_app(folder, {path.format(package=package): template for path, template in _TEMPLATES.items()}, words, config)
