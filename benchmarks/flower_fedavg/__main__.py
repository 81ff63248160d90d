"""Run the app in Flower's own simulation: ``python -m flower_fedavg WORKLOAD REPORT CORES TEMPORARY_FOLDER``.

`flwr run` would leave a SuperLink behind; `run_simulation` runs the same simulation and ends with it.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from flwr.simulation import run_simulation

from flower_fedavg.app import client_app, server_app
from flower_fedavg.workload import Workload


def seen_by_ray(work: Workload) -> Workload:
    """The same work on the one GPU that is left to see: Ray shows each actor its own as the first."""
    kind, _, index = work.device.partition(":")
    if kind != "cuda" or not index:
        return work
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = seen.split(",")[int(index)] if seen else index
    return replace(work, device=kind)


def main(workload: str, report: str, cores: str, folder: str) -> None:
    """Simulate and write the report; one actor per core, each with one processor and a share of the GPU."""
    work = seen_by_ray(Workload(**json.loads(workload)))
    shared = 10_000 // int(cores) / 10_000 if work.device == "cuda" else 0.0  # Ray counts in ten-thousandths
    measured: dict[str, Any] = {}
    run_simulation(
        server_app(work, measured),
        client_app,
        num_supernodes=work.clients,
        backend_config={
            "init_args": {"num_cpus": int(cores), "_temp_dir": folder},
            "client_resources": {"num_cpus": 1, "num_gpus": shared},
        },
    )
    Path(report).write_text(json.dumps(measured))


if __name__ == "__main__":
    main(*sys.argv[1:])
