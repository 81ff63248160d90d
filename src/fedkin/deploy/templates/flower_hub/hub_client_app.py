"""Does what the experiment asks for: on a part of built-in data in a simulation, on the site's own data elsewhere."""

from pathlib import Path

from fedkin.deploy.site_app import client_app

app = client_app(Path(__file__).resolve().parent.parent)
