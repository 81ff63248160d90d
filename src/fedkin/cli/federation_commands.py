"""Commands that prepare a real federation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from fedkin.cli import shared_options
from fedkin.cli.app import REFUSED, app
from fedkin.cli.help_pages import METHOD, Group


@app.group(cls=Group, no_args_is_help=True)
def federation() -> None:
    """Prepare a real federation; Flower runs it."""


@federation.command()
@shared_options.argument("folder", "New folder for the Flower app.", type=shared_options.PATH)
@shared_options.argument(
    "experiment", "A method's name or a .toml file.", metavar="[METHOD-or-FILE]", default="kin-graph", type=METHOD
)
@click.option(
    "--sites", metavar="INTEGER", type=click.IntRange(1), help="Number of sites; by default federation.clients, else 3."
)
@click.option("--host", default="127.0.0.1", help="Name or address that sites know the server by.")
@click.option("--port", metavar="INTEGER", type=click.IntRange(1, 65535), default=8000, help="The server's port.")
@click.option("--insecure", is_flag=True, help="No encryption, no check of who takes part.")
@click.option("--hub", metavar="PUBLISHER", help="Write an app for Flower Hub instead, of this account.")
@shared_options.settings("Any key of the experiment, such as method.n_clusters=4.")
def init(folder: Path, experiment: str, hub: str | None, settings: tuple[str, ...], **network: Any) -> None:
    """Write a folder that runs an experiment on real sites. It is a Flower app, with certificates."""
    _needs_flower()
    if hub is not None:
        from fedkin.deploy.flower_hub import init_hub

        init_hub(folder, experiment, list(settings), hub)
        print(f"Wrote {folder}; `flwr app publish {folder}` publishes it, once you have logged in.")
        return
    from fedkin.deploy.app_folder import init as written

    written(folder, experiment, settings=list(settings), **network)
    print(f"Wrote {folder}; {folder / 'README.md'} says how to start.")


@federation.command()
@shared_options.argument("path", "File for the private key.", metavar="FILE", type=shared_options.PATH)
def key(path: Path) -> None:
    """Make a site's key; the server registers its public half."""
    _needs_flower()
    from fedkin.deploy.app_folder import make_key

    print(f"Wrote {path}, which stays here, and {make_key(path)} for the server.")


@federation.command()
@shared_options.argument("path", "A site's own file.", metavar="SITE.toml", type=shared_options.PATH)
def check(path: Path) -> None:
    """Check a site's file and its data. Nothing is sent, and nothing is written."""
    _needs_flower()
    from fedkin.core import FedkinError
    from fedkin.deploy.site_app import checked

    try:
        sentences = checked(path)
    except FedkinError as error:  # its options are those of the site's file, and not of --set
        print(f"fedkin: {error}", file=sys.stderr)
        raise SystemExit(REFUSED) from error
    print("\n".join(sentences))


@federation.command()
@shared_options.folder("results", "Results of a real federation.")
@shared_options.as_json
def sites(results: Path, as_json: bool) -> None:
    """Show which sites are there, since when, and when each last replied."""
    _needs_flower()
    from fedkin.deploy.server_app import json_of_sites, table_of_sites

    print(json_of_sites(results) if as_json else table_of_sites(results))


def _needs_flower() -> None:
    from fedkin.engines.flower_engine.version import check_flower

    check_flower()
