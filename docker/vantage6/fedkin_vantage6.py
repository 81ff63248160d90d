"""A vantage6 algorithm: clusters of samples or of organizations by a method of fedkin's."""

from typing import Any

import pandas as pd
from vantage6.algorithm.tools.decorators import algorithm_client, data

from fedkin.deploy.vantage6 import answer_partial, run_central


@algorithm_client
def central(
    client: Any, method: str, settings: tuple[str, ...] = (), organizations: tuple[int, ...] = ()
) -> dict[str, str]:
    """Run a method on the collaboration; see `fedkin.deploy.vantage6.run_central`."""
    return run_central(client, method, settings, organizations)


@data(1)
@algorithm_client
def partial(client: Any, frame: pd.DataFrame, message: dict[str, Any]) -> dict[str, Any]:
    """Answer a message of `central` on an organization's table; nothing else calls it."""
    return answer_partial(client, frame, message)
