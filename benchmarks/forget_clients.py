"""What forgetting a client costs beside a run without it: ``python benchmarks/forget_clients.py``.

Digits, ten clients. A client is forgotten of a finished run, and the same experiment is run without it from the start
(``engine.forgotten``). Seconds are of one process, reading data and writing the page included; those of clients are of
the steps that are done again. ARI compares the clusters of the other clients' samples, or of the other clients, with
those of the run without it.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from pathlib import Path

from sklearn.metrics import adjusted_rand_score

from fedkin.experiment.config import load_config
from fedkin.experiment.forgetting import FORGOTTEN, forget
from fedkin.experiment.forgetting_plan import plan_forgetting
from fedkin.experiment.run import execute
from fedkin.experiment.run_folder import read_timing

PLAIN = ["evaluation.map=none"]
EXPERIMENTS = {
    "kfed": ("kfed", PLAIN),
    "mufc": ("mufc", PLAIN),
    "kin-graph, own": ("kin-graph", [*PLAIN, "method.common_micro_clusters=false"]),
    "kin-graph, own, 10 given": (
        "kin-graph",
        [*PLAIN, "method.common_micro_clusters=false", "method.n_clusters=10"],
    ),
    "kin-graph, common": ("kin-graph", [*PLAIN, "method.common_micro_clusters=true"]),
    "ocfl": ("ocfl", [*PLAIN, "scenario.clients=10", "method.rounds=20"]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--client", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=list(EXPERIMENTS))
    options = parser.parse_args()
    for name in options.only:
        for seed in options.seeds:
            with tempfile.TemporaryDirectory() as folder:
                print(measured(name, seed, options.client, Path(folder)), flush=True)


def measured(name: str, seed: int, client: int, folder: Path) -> str:
    """One line of what was measured."""
    method, settings = EXPERIMENTS[name]
    settings = [*settings, f"seed={seed}"]
    execute(load_config(method, settings), folder / "run")
    began = time.perf_counter()
    forget(plan_forgetting(folder / "run", [client]), folder / "out")
    forgetting = time.perf_counter() - began
    began = time.perf_counter()
    execute(load_config(method, [*settings, f"engine.forgotten=[{client}]"]), folder / "fresh")
    fresh = time.perf_counter() - began
    (found,) = json.loads((folder / "out" / FORGOTTEN).read_text())
    ours, theirs, before = (clusters(folder / run, client) for run in ("out", "fresh", "run"))
    kept = found["kept_steps"] if found["way"] == "exact" else -1
    same, then = adjusted_rand_score(theirs, ours), adjusted_rand_score(before, ours)
    return (
        f"{name}, seed {seed}: {found['way']}, {forgetting:.2f} s, a run without it {fresh:.2f} s "
        f"({forgetting / fresh:.2f}); clients compute {computed(folder / 'out', kept):.2f} s, without it "
        f"{computed(folder / 'fresh', -1):.2f} s; labels equal: {ours == theirs}, ARI {same:.3f}, with those before "
        f"{then:.3f}; clusters {len(set(ours))}, without it {len(set(theirs))}"
    )


def computed(folder: Path, after: int) -> float:
    """Seconds that all clients together computed in the steps after this one."""
    return sum(line["client_seconds"] for line in read_timing(folder) if line["step"] > after)


def clusters(folder: Path, client: int) -> list[int]:
    """The clusters of the other clients' samples, or of the other clients."""
    whole = folder / "clients.csv"
    if whole.is_file():
        return [int(row["cluster"]) for row in csv.DictReader(whole.open()) if int(row["client"]) != client]
    files = sorted(path for path in (folder / "labels").glob("*.csv") if path.stem != f"client-{client}")
    return [int(row["cluster"]) for path in files for row in csv.DictReader(path.open())]


if __name__ == "__main__":
    main()
