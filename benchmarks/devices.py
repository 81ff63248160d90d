"""Ten million devices on paper: what k-means by sums would send, and what fails first.

    python benchmarks/devices.py

Messages are measured on a group of 64 clients in this process, hidden sums included; the rest is drawn: devices answer
each exchange with a chance of their own, groups go on as fedkin's do, and aggregators form a tree.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
import torch

from fedkin.core import Client, client_task
from fedkin.core.replies import doubles
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.kfed import cluster_locally
from fedkin.secure_aggregation import masks
from fedkin.secure_aggregation.client_tasks import Term
from fedkin.secure_aggregation.sums import summed

GROUP, FAN_IN, DAY = 64, 1_000, 86_400
ROWS, COLUMNS, CLUSTERS = 32, 64, 10


@client_task(holds={"counts": doubles(CLUSTERS), "sums": doubles(CLUSTERS, COLUMNS)})
def send_sums(client: Client, payload: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Send counts and sums of rows by nearest centroid."""
    near = torch.cdist(client.x, payload["centroids"]).argmin(1)
    members = torch.nn.functional.one_hot(near, CLUSTERS).double()
    return {"counts": members.sum(0), "sums": members.T @ client.x.double()}


def clients() -> list[Client]:
    rng = torch.Generator().manual_seed(0)
    return [Client(i, torch.randn(ROWS, COLUMNS, generator=rng)) for i in range(GROUP)]


def messages() -> dict[str, tuple[float, float, float, int]]:
    """Bytes to and from a device, microseconds of the server's processor, and exchanges, by what is sent."""
    measured = {}
    request = {"centroids": torch.zeros(CLUSTERS, COLUMNS)}
    terms = [Term("counts", (CLUSTERS,)), Term("sums", (CLUSTERS, COLUMNS))]
    for name in ("centres (k-FED)", "sums", "hidden sums"):
        fed = LocalFederation(clients(), workers=1)
        began = time.process_time()
        if name == "sums":
            fed.ask(send_sums, fed.all(**request))
        elif name == "hidden sums":
            summed(fed, send_sums, fed.all(**request), terms)
        else:
            fed.ask(cluster_locally, fed.all(features="raw", local_clusters=CLUSTERS))
        server = (time.process_time() - began - fed.seconds) / GROUP * 1e6
        measured[name] = (fed.traffic.sent / GROUP, fed.traffic.received / GROUP, server, fed.exchange)
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables of `docs/devices.md`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(arguments)
    sizes = messages()
    print("| a device's reply | exchanges | bytes to it | bytes from it | server's µs |\n|---|---|---|---|---|")
    for name, (down, up, server, exchanges) in sizes.items():
        print(f"| {name} | {exchanges} | {down:,.0f} | {up:,.0f} | {server:,.0f} |")
    print(
        "\n| devices | what | messages/s | into one server, GB/day | its hours/day | into an aggregator, MB/day | root |"
    )
    print("|---|---|---|---|---|---|---|")
    for devices in (10**6, 10**7):
        aggregators = -(-devices // (GROUP * FAN_IN))
        for name, (_, up, server, exchanges) in sizes.items():
            root = f"{up * devices / 1e9:.1f} GB" if "centres" in name else f"{aggregators * 8 * 650 / 1e6:.1f} MB"
            row = (devices * exchanges / DAY, up * devices / 1e9, devices * server / 3.6e9, up * GROUP * FAN_IN / 1e6)
            print(f"| {devices:,} | {name} | {row[0]:,.0f} | {row[1]:,.1f} | {row[2]:.1f} | {row[3]:,.0f} | {root} |")
    rng = np.random.default_rng(0)
    print(f"\nA group of {GROUP} needs {masks.threshold(GROUP)} to the end.")
    print(
        "\n| chance that a device answers | in a hidden sum | in five plain rounds | in all five |\n|---|---|---|---|"
    )
    for chance in (0.99, 0.95, 0.92, 0.9, 0.88, 0.85, 0.8):
        every = rng.binomial(5, chance, 10**6)
        print(
            f"| {chance} | {recovered(10**7, chance, rng):.1%} | {every.mean() / 5:.1%} | {(every == 5).mean():.1%} |"
        )


if __name__ == "__main__":
    main()
