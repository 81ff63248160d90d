"""What do many clients cost? k-means-like methods on one array of clients, each with clusters and noise of its own.

    python benchmarks/million.py CSV --methods kfed kmeans --clients 1000 10000 100000
    python benchmarks/million.py CSV --methods kfed --clients 300 --singles
    python benchmarks/million.py --devices

Clients have 32 rows of 64 columns, of three of ten clusters each; the rows are a file that is mapped into memory. Every
size runs in a process of its own. Columns: seconds of each step, processor seconds of workers, their microseconds per
client, gigabytes that were allocated at most and those with the file's pages, and the load of the machine when the run
began and ended: seconds mean little where it is above the number of cores. ``--singles`` are the same clients one at a
time. ``plain`` is one round of Lloyd's algorithm with sums and counts of each client, in numpy.

``fedavg ocfl`` and others train a network of 610 numbers in three rounds of three steps; four groups of clients call
clusters by other names. Steps are then processor seconds, ``init`` first, and ``alone_us`` what a client's three take.

``--devices`` prints what ten million real devices would send. Messages are measured on a group of 64 clients in this
process, hidden sums included; the rest is drawn: devices answer each exchange with a chance of their own, groups go on
as fedkin's do, and aggregators form a tree.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedkin.core import Client, client_task
from fedkin.core.client_array import ClientArray
from fedkin.core.payload import doubles
from fedkin.core.runner import Runner
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.experiment.registry import resolve
from fedkin.methods.samples.kfed import cluster_locally
from fedkin.nn.modules import Classifier
from fedkin.secure_aggregation import masks
from fedkin.secure_aggregation.client_tasks import Term
from fedkin.secure_aggregation.sums import summed

ROWS, COLUMNS, CLUSTERS, BLOCK = 32, 64, 10, 1 << 14
GROUP, FAN_IN, DAY = 64, 1_000, 86_400  # devices of a hidden sum, groups of an aggregator, seconds


def centres() -> torch.Tensor:
    """The true clusters."""
    return 1.5 * torch.randn(CLUSTERS, COLUMNS, generator=torch.Generator().manual_seed(0))


def write_rows(path: Path, clients: int) -> None:
    """Write the clients' rows, some at a time."""
    rows = np.lib.format.open_memmap(path, "w+", dtype=np.float32, shape=(clients * ROWS, COLUMNS))
    truth, rng = centres(), torch.Generator().manual_seed(1)
    for start in range(0, clients, BLOCK):
        count = min(BLOCK, clients - start)
        of_client = torch.rand(count, CLUSTERS, generator=rng).argsort(1)[:, :3]
        labels = of_client.gather(1, torch.randint(3, (count, ROWS), generator=rng)).flatten()
        part = torch.randn(count * ROWS, COLUMNS, generator=rng).add_(truth[labels])
        rows[start * ROWS : (start + count) * ROWS] = part.numpy()
    rows.flush()


SETTINGS: dict[str, dict[str, Any]] = {
    "kfed": {}, "kmeans": {"n_init": 1}, "mufc": {}, "feddp-kmeans": {},
    "ffcm": {"aggregation": "mean", "start": "uniform", "rounds": 2},
    "kin-graph": {"n_clusters": CLUSTERS, "common_micro_clusters": False, "components": 10, "features": "raw"},
}  # fmt: skip
NETWORKS: dict[str, dict[str, Any]] = {
    "fedavg": {}, "ifca": {"n_clusters": 4}, "ocfl": {}, "sattler": {"cooldown": 0}, "pacfl": {},
    "embedding": {"pretraining_rounds": 0}, "fedgroup": {"n_clusters": 4}, "hierarchical": {"clustering_round": 1},
}  # fmt: skip


def tiny(shape: tuple[int, ...], classes: int) -> torch.nn.Module:
    """Network of 610 numbers."""
    return torch.nn.Sequential(torch.nn.Linear(*shape, 8), torch.nn.ReLU(), torch.nn.Linear(8, classes))


def steps_alone(clients: Sequence[Client]) -> float:
    """Microseconds of each client's three steps, and nothing else."""
    network = Classifier.of({"name": "million:tiny", "shape": (COLUMNS,), "classes": CLUSTERS})
    start, began = network.initial(torch.Generator()), time.process_time()
    with one_thread(), network.loaded(start, training=True) as resident:
        for client in clients:
            resident.load(start)
            resident.train_batches(client.x, client.y, [torch.randperm(ROWS) for _ in range(3)], 0.05)
    return (time.process_time() - began) / len(clients) * 1e6


class Watch(threading.Thread):
    """Notes the most memory that this process has had: allocated, and with pages of files."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.allocated = self.resident = 0.0
        self.start()

    def run(self) -> None:
        while True:
            status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            allocated, resident = (int(status[name].split()[0]) / 1e6 for name in ("RssAnon", "VmRSS"))
            self.allocated, self.resident = max(self.allocated, allocated), max(self.resident, resident)
            time.sleep(0.05)


def fedkin_run(name: str, path: Path, clients: int, singles: bool) -> dict[str, Any]:
    """Run a method to its end."""
    rows = torch.from_numpy(np.load(path, mmap_mode="c"))
    members: Any = ClientArray(rows, torch.arange(clients + 1) * ROWS)
    if singles or name in NETWORKS:
        labels = torch.cat([part.matmul(centres().T).argmax(1) for part in rows.split(BLOCK)])
        parts = zip(rows.split(ROWS), labels.split(ROWS), strict=True)
        members = [Client(i, x, (y + i % 4) % CLUSTERS) for i, (x, y) in enumerate(parts)]
    steps: list[float] = []
    alone: list[float] = []

    class Timed(Runner):
        began = 0.0

        def keep(self, state: Any, timing: Any, line: Any) -> Any:
            steps.append(time.process_time() - self.began if name in NETWORKS else timing["seconds"])
            alone.extend([steps_alone(members[:300])] if name in NETWORKS else [])
            self.began = time.process_time()
            return state

    fed = LocalFederation(members, 3)
    settings = {"module": "million:tiny", "rounds": 3, **NETWORKS[name]} if name in NETWORKS else SETTINGS[name]
    state = Timed(resolve("method", name)(**settings), fed).steps()
    found = state.labels if name in NETWORKS else state.clusters if name == "kin-graph" else None
    if found is None:
        found = torch.cdist(centres(), state.centroids).argmin(1)
    return {
        "steps": steps, "cpu_seconds": sum(steps[1:]) if alone else fed.seconds, "alone_us": float(np.mean(alone or 0)),
        "recovered": len(found.unique()),
    }  # fmt: skip


def plain(path: Path, clients: int, singles: bool) -> dict[str, Any]:
    """One round of Lloyd's algorithm, with each client's sums and counts, by numpy alone."""
    rows, found, began = np.load(path, mmap_mode="r"), centres().numpy(), time.perf_counter()
    lengths, cpu = (found**2).sum(1), time.process_time()
    sums, counts = np.zeros((CLUSTERS, COLUMNS)), np.zeros(CLUSTERS)
    size = 1 if singles else 512
    for start in range(0, clients, size):
        x = rows[start * ROWS : (start + size) * ROWS]
        near = (lengths - 2 * (x @ found.T)).argmin(1).reshape(-1, ROWS)
        members = (near[:, None] == np.arange(CLUSTERS)[:, None]).astype(np.float32)
        of_clients = members @ x.reshape(-1, ROWS, COLUMNS)
        sums += of_clients.sum(0)
        counts += members.sum((0, 2))
    return {"steps": [time.perf_counter() - began], "cpu_seconds": time.process_time() - cpu}


def measure(name: str, path: Path, clients: int, singles: bool) -> dict[str, Any]:
    """Measure one run in this process."""
    watch, load = Watch(), os.getloadavg()[0]
    result = plain(path, clients, singles) if name == "plain" else fedkin_run(name, path, clients, singles)
    steps = [round(seconds, 2) for seconds in result["steps"]]
    return {
        "method": name, "clients": clients, "form": "singles" if singles else "array", "seconds": round(sum(steps), 2),
        "steps": " ".join(map(str, steps)), "cpu_seconds": round(result["cpu_seconds"], 2),
        "cpu_us_per_client": round(result["cpu_seconds"] / clients * 1e6, 1), "allocated_gb": round(watch.allocated, 2),
        "resident_gb": round(watch.resident, 2), "load": f"{load:.1f} {os.getloadavg()[0]:.1f}",
        "alone_us": round(result.get("alone_us", 0)), "recovered": result.get("recovered", ""),
    }  # fmt: skip


# Ten million real devices on paper.


@client_task(holds={"counts": doubles(CLUSTERS), "sums": doubles(CLUSTERS, COLUMNS)})
def send_sums(client: Client, payload: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Send counts and sums of rows by nearest centroid."""
    near = torch.cdist(client.x, payload["centroids"]).argmin(1)
    members = torch.nn.functional.one_hot(near, CLUSTERS).double()
    return {"counts": members.sum(0), "sums": members.T @ client.x.double()}


def messages() -> dict[str, tuple[float, float, float, int]]:
    """Bytes to and from a device, microseconds of the server's processor, and exchanges, by what is sent."""
    measured = {}
    request = {"centroids": torch.zeros(CLUSTERS, COLUMNS)}
    terms = [Term("counts", (CLUSTERS,)), Term("sums", (CLUSTERS, COLUMNS))]
    for name in ("centres (k-FED)", "sums", "hidden sums"):
        rng = torch.Generator().manual_seed(0)
        members = [Client(i, torch.randn(ROWS, COLUMNS, generator=rng)) for i in range(GROUP)]
        fed = LocalFederation(members, workers=1)
        began = time.process_time()
        if name == "sums":
            fed.ask(send_sums, fed.all(**request))
        elif name == "hidden sums":
            summed(fed, send_sums, fed.all(**request), terms)
        else:
            fed.ask(cluster_locally, fed.all(features="raw", local_clusters=CLUSTERS))
        server = (time.process_time() - began - fed.seconds) / GROUP * 1e6
        measured[name] = (fed.sent / GROUP, fed.received / GROUP, server, fed.exchange)
    return measured


def recovered(devices: int, chance: float, rng: np.random.Generator) -> float:
    """Part of the devices whose group's hidden sum is recovered, if each answers an exchange with this chance.

    Who has missed one is out for the rest of the sum; as many as `masks.threshold` must stay to the last.
    """
    groups = devices // GROUP
    dealt = rng.binomial(GROUP, chance, groups)
    replied = rng.binomial(dealt, chance)
    revealed = rng.binomial(replied, chance)
    return float(replied[revealed >= masks.threshold(GROUP)].sum() / devices)


def print_devices() -> None:
    """Print the lines of ``docs/results/data/many-clients.csv`` for what real devices would send, and what fails."""
    lines: list[tuple[str, str, str, str]] = []
    sizes = messages()
    for name, (down, up, server, exchanges) in sizes.items():
        numbers = {"exchanges": exchanges, "bytes to it": down, "bytes from it": up, "server's µs": server}
        lines += [("messages", name, column, f"{number:,.0f}") for column, number in numbers.items()]
    for devices in (10**6, 10**7):
        aggregators = -(-devices // (GROUP * FAN_IN))
        for name, (_, up, server, exchanges) in sizes.items():
            root = up * devices / 1e6 if "centres" in name else aggregators * 8 * CLUSTERS * (COLUMNS + 1) / 1e6
            numbers = {
                "messages a second": f"{devices * exchanges / DAY:,.0f}",
                "GB a day, one server": f"{up * devices / 1e9:,.1f}",
                "its hours a day": f"{devices * server / 3.6e9:.1f}",
                "MB a day, aggregator": f"{up * GROUP * FAN_IN / 1e6:,.0f}",
                "MB a day, root": f"{root:,.1f}",
            }
            lines += [("load", f"{devices:,}, {name}", column, number) for column, number in numbers.items()]
    rng = np.random.default_rng(0)
    for chance in (0.99, 0.95, 0.92, 0.9, 0.88, 0.85, 0.8):
        every = rng.binomial(5, chance, 10**6)
        numbers = {"in a hidden sum": recovered(10**7, chance, rng), "in a plain sum": every.mean() / 5}
        numbers["in five plain sums"] = (every == 5).mean()
        lines += [("availability", f"{chance:.0%}", column, f"{part:.1%}") for column, part in numbers.items()]
    csv.writer(sys.stdout).writerows((*line, "", "", "") for line in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and append a line for each run to the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=Path, nargs="?", default=Path("million.csv"))
    parser.add_argument("--methods", nargs="+", default=["plain", "kfed", "kmeans", "mufc", "ffcm", "feddp-kmeans"])
    parser.add_argument("--clients", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--singles", action="store_true")
    parser.add_argument("--devices", action="store_true", help="print what real devices would send instead")
    options = parser.parse_args(arguments)
    if options.devices:
        print_devices()
        return
    with tempfile.TemporaryDirectory(prefix="million-") as folder:
        for clients, name in product(options.clients, options.methods):
            path = Path(folder) / f"{clients}.npy"
            if not path.exists():
                write_rows(path, clients)
            with ProcessPoolExecutor(1, get_context("spawn")) as process:  # of its own, as its memory is measured
                line = process.submit(measure, name, path, clients, options.singles).result()
            print(*line.values(), flush=True)
            with options.csv.open("a", newline="") as file:
                writer = csv.DictWriter(file, line)
                if not file.tell():
                    writer.writeheader()
                writer.writerow(line)


if __name__ == "__main__":
    main()
