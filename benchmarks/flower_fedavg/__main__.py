"""Run the app in Flower's own simulation: ``python -m flower_fedavg WORKLOAD REPORT CORES TEMPORARY_FOLDER``.

`flwr run` would leave a SuperLink behind; `run_simulation` runs the same simulation and ends with it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from flwr.simulation import run_simulation

from flower_fedavg.app import client_app, server_app
from flower_fedavg.workload import Workload


def main(workload: str, report: str, cores: str, folder: str) -> None:
    """Simulate and write the report; one actor per core, each with one processor."""
    work = Workload(**json.loads(workload))
    measured: dict[str, Any] = {}
    run_simulation(
        server_app(work, measured),
        client_app,
        num_supernodes=work.clients,
        backend_config={
            "init_args": {"num_cpus": int(cores), "_temp_dir": folder},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    Path(report).write_text(json.dumps(measured))


if __name__ == "__main__":
    main(*sys.argv[1:])
