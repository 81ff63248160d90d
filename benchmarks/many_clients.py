"""Seconds per client, and peak memory, as the federation grows: FedAvg with one client in ten asked per round.

    python benchmarks/many_clients.py --clients 100 1000 10000

Every client holds the same number of made-up samples of 8 x 8, whatever their number, and trains a perceptron of 15,010
parameters for one epoch. Each size is a run of its own, with records and checkpoints, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROUNDS, SAMPLES = 10, 32


def main() -> None:
    """Run every size and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", nargs="+", type=int, default=[100, 1000, 10000])
    parser.add_argument("--one", type=int, help="run this size in this process and print its figures as JSON")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one)))
        return
    print("| clients | asked per round | ms per client asked | rounds, whole run | peak memory |")
    print("|---|---|---|---|---|")
    for clients in given.clients:
        found = json.loads(
            subprocess.run(
                [sys.executable, __file__, "--one", str(clients)], check=True, capture_output=True, text=True
            ).stdout.splitlines()[-1]
        )
        print(
            f"| {clients:,} | {found['asked']:,} | {1000 * found['seconds'] / found['asked']:.2f} | "
            f"{ROUNDS} in {found['total']:.1f} s | {found['memory']:.0f} MiB |"
        )


def measured(clients: int) -> dict[str, float]:
    """Median seconds of a round after the first, clients asked in it, seconds of all, and peak memory in MiB."""
    import numpy as np

    from fedkin.experiment.config import load_config
    from fedkin.experiment.run import execute
    from fedkin.experiment.run_folder import TIMING

    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        data = Path(folder) / "data.npz"
        total = clients * SAMPLES
        y = rng.integers(10, size=total)
        np.savez(data, x=rng.random((total, 1, 8, 8), dtype=np.float32), y=y)
        settings = [
            f"data.source={json.dumps(str(data))}", "scenario.name=iid", f"scenario.clients={clients}",
            "scenario.test_fraction=0.0", "method.module=perceptron", "method.participation=0.1",
            "method.local_epochs=1",
            f"method.rounds={ROUNDS}",
        ]  # fmt: skip
        outcome = execute(load_config("fedavg", settings), Path(folder) / "run")
        seconds = [json.loads(line)["seconds"] for line in (outcome.folder / TIMING).read_text().splitlines()]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    asked = len(outcome.records[-1]["answered"])
    return {"seconds": median(seconds[1:]), "asked": asked, "total": sum(seconds), "memory": memory}


if __name__ == "__main__":
    main()
