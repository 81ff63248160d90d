"""App folder for Flower Hub that ``fedkin federation init --hub`` writes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from fedkin import __version__
from fedkin.core import FedkinError
from fedkin.deploy.app_folder import check_federated, columns_of_sites, packages_line, what_to_install, write_app
from fedkin.engines.flower_engine.version import NEWEST, OLDEST
from fedkin.experiment.config import load_config
from fedkin.experiment.run_folder import check_empty

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
    federated = ["data.source=federation", "scenario.name=files", "engine.name=flower", "engine.sites=1"]
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
        "clusters": config.method.clusters or "samples",
        "oldest": OLDEST.removesuffix(".0"),
        "target": NEWEST,
        "fedkin": __version__,
    }
    write_app(folder, {path.format(package=package): template for path, template in _TEMPLATES.items()}, words, config)
