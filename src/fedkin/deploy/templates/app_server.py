"""Runs experiment.toml on the sites that are connected."""

from pathlib import Path

from fedkin.deploy.server_app import server_app

app = server_app(Path(__file__).resolve().parent.parent)
