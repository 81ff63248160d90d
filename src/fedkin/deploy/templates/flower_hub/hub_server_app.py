"""Runs experiment.toml on the sites that are connected."""

from pathlib import Path

from fedkin.deploy.flower_hub import server_app

app = server_app(Path(__file__).resolve().parent.parent)
