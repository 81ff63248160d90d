"""Does at a site what the experiment asks for, on the data that the site's own file names."""

from fedkin.deploy.site_app import client_app

app = client_app()
