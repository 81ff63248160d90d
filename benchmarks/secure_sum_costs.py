"""Bytes and processor time of one secure sum, by number of clients, with and without clients that are lost.

    python benchmarks/secure_sum_costs.py [--clients 5 20 100] [--seeds 3]

Clients sum 62,000 numbers in one process, on one thread. Their channel keys are exchanged before, in a first sum that
does not count. Three tenths of the clients are lost after they have sent shares of their keys, or none.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
import torch

from fedkin.core import Client, Payload, task
from fedkin.core.replies import reals
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.secure_aggregation.client_tasks import Term
from fedkin.secure_aggregation.sums import summed

SIZE, LOST = 62_000, 0.3


@task(takes={"model": reals("size")}, holds={"update": reals("size")})
def send_update(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Send a one for each number of the model."""
    return [{"update": torch.ones(len(payload["model"]))} for payload in payloads]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[5, 20, 100])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    print("| clients | lost | bytes from a client | bytes to it | ms of a client | ms of the server |")
    print("|---|---|---|---|---|---|")
    for clients in given.clients:
        for lost in sorted({0, int(clients * LOST)}):
            found = np.array([costs(clients, lost, seed) for seed in range(given.seeds)]).mean(0)
            sent, received, client, server = found.tolist()
            cells = f"{received:,.0f} | {sent:,.0f} | {1e3 * client:.0f} | {1e3 * server:.0f}"
            print(f"| {clients} | {lost} | {cells} |", flush=True)


def costs(clients: int, lost: int, seed: int) -> tuple[float, float, float, float]:
    """Bytes to and from a client, and seconds of a client and of the server; with `lost` clients."""
    fed = LocalFederation([Client(i, torch.zeros(1, 1)) for i in range(clients)], seed, workers=1)
    payloads, terms = fed.all(model=torch.zeros(SIZE)), [Term("update", (SIZE,))]
    with one_thread():
        summed(fed, send_update, payloads, terms)
        sent, received, seconds = fed.traffic.sent, fed.traffic.received, fed.seconds
        # The next exchange sends shares; the one after it asks for what is summed.
        fed.failures = {(fed.exchange + 2, client) for client in range(lost)}
        began = time.process_time()
        total = summed(fed, send_update, payloads, terms)[0]
        passed = time.process_time() - began
    if len(total.clients) != clients - lost:
        raise SystemExit(f"{len(total.clients)} of {clients - lost} clients are in the sum.")
    of_clients = fed.seconds - seconds
    traffic = (fed.traffic.sent - sent) / clients, (fed.traffic.received - received) / clients
    return (*traffic, of_clients / clients, passed - of_clients)


if __name__ == "__main__":
    main()
