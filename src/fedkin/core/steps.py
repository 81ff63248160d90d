"""Steps of a method, repeated until clients have replied."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import FrozenInstanceError
from typing import Any

import torch
from torch import Tensor

from fedkin.core.client import Client
from fedkin.core.contract import after_step, check_result, first_state
from fedkin.core.errors import DivergedError, FedkinError, listing
from fedkin.core.federation import MAX_ATTEMPTS, MAX_UNUSABLE, Federation
from fedkin.core.method import Method, Record
from fedkin.core.progress import RecordLine
from fedkin.core.refusals import Refusal, Unusable
from fedkin.core.replies import MAX_UPDATE, tells_of_divergence


def begin(method: Method[Any], fed: Federation) -> Any:
    """Return the first state of `method`; raise FedkinError if `init` returns none, or sets what does not change."""
    with _unchanged(method, "init"):
        state = method.init(fed)
    return first_state(method, state)


@contextmanager
def _unchanged(method: Method[Any], function: str) -> Iterator[None]:
    """Say in a sentence that options and states are not set; a context manager around a `function` of `method`."""
    try:
        yield
    except FrozenInstanceError as error:
        raise FedkinError(
            f"{type(method).__name__}.{function} {error}: options and states do not change; what is new goes into the "
            "next state, as in state.next(centroids=...)."
        ) from error


def do_step(method: Method[Any], fed: Federation, state: Any) -> tuple[Any, Record]:
    """Do one step of `method`, and repeat it if no client replied or if clients have to be left out first.

    A step that nobody answers is done again, up to 20 times, or five times if all replies were unusable. Then those
    that were asked are left out of the run, if enough clients remain. So are, at once, those whose updates alone make
    a model useless (`DivergedError`). Raises FedkinError if fewer than `Federation.min_clients` would remain, which
    names the clients and says why, or if a model diverges and no client stands out: after averaging, or in training at
    everyone.
    """
    empty = 0
    while True:
        fed.requested, fed.usable = 0, 0
        try:
            with _unchanged(method, "step"):
                answer = method.step(fed, state)
            after, record = after_step(method, state, answer)
        except DivergedError as error:
            reasons = {i: reason for i, reason in error.culprits.items() if i not in fed.away}
            if not reasons or not fed.can_spare(reasons):
                raise error.naming(fed.called_inside) from error
            fed.leave_out(reasons)
            continue
        if fed.usable or not fed.requested:
            return after, record
        empty += 1
        reasons = {i: reason for i, reason in fed.missing.items() if i not in fed.away}
        if empty < _attempts(reasons):
            fed.pause(empty)
            continue
        if not reasons or not fed.can_spare(reasons):
            silent = listing([f"{fed.called_inside(client)}: {reason}" for client, reason in reasons.items()])
            if reasons and all(map(tells_of_divergence, reasons.values())):
                raise DivergedError(
                    f"Training diverged in step {state.steps + 1} at every client that was asked: updates are not "
                    f"finite, or beyond {MAX_UPDATE:g}",
                    {},
                )
            tried = f"in step {state.steps + 1}, in {empty} attempts"
            raise FedkinError(f"Nobody gave a usable reply {tried}, so the run stops ({silent}).")
        fed.leave_out(reasons)
        empty = 0


def _attempts(reasons: Mapping[int, str]) -> int:
    """Return how often a step is tried that no client replies to."""
    lasting = all(isinstance(reason, Unusable | Refusal) for reason in reasons.values())
    return MAX_UNUSABLE if lasting else MAX_ATTEMPTS


def record_line(record: Record, fed: Federation, step: int, metrics: Mapping[str, Any]) -> RecordLine:
    """Return the line of a step's record, in which clients that were left out of the run are missing, too."""
    record = dataclasses.replace(record, missing={**record.missing, **fed.left_out})
    refused = {"refused": list(fed.refused)} if fed.refused else {}
    line: RecordLine = _finite({**record.line(step, fed.traffic, metrics), **refused})
    return line


def _finite(value: Any) -> Any:
    """Replace NaN and infinities in `value` by ``None``, as JSON cannot hold them."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def result_of(method: Method[Any], fed: Federation, state: Any) -> dict[str, Any]:
    """Return the result of a method that has finished, in which clients that were left out have the label -1.

    Raises FedkinError if it is not as it should be, no client of this process has clusters of its samples where it
    should, or one has a number that is not among them.
    """
    found = method.result(state)
    check_result(method, found)
    if method.clusters == "samples":
        _check_clustered(method, fed, found)
    elif fed.left_out and isinstance(labels := found.get("labels"), Tensor):
        found = {**found, "labels": labels.index_fill(0, torch.tensor(sorted(fed.left_out)), -1)}
    return dict(found)


def clustered(fed: Federation) -> list[Client]:
    """Return the clients of this process that take part to the end and have clusters of their samples, in order."""
    return [one for i in fed.present if (one := fed.clients.get(i)) is not None and "clusters" in one.state]


def used_clusters(labels: Iterable[Tensor]) -> int:
    """Return the number of clusters with members in any of `labels`, int64 ``(n,)`` each; below 0 is none.

    Of samples it is known only where the clients are in this process: on a real federation none reports its clusters.
    """
    return len({cluster for own in labels for cluster in own.unique().tolist() if cluster >= 0})


def without_result(method: Method[Any], fed: Federation) -> dict[int, str]:
    """Return the clients of this process that have no part in the result though they began, and why."""
    missing = dict(fed.left_out)
    if method.clusters == "samples":
        having = {client.id for client in clustered(fed)}
        missing |= {i: fed.missing.get(i, "no reply") for i in fed.present if i in fed.clients and i not in having}
    return dict(sorted(missing.items()))


def _check_clustered(method: Method[Any], fed: Federation, found: Mapping[str, Any]) -> None:
    """Check the clusters of samples that a method has left at the clients of this process, if any."""
    clients = [fed.clients[i] for i in fed.present if i in fed.clients]
    if not clients:
        return
    name = type(method).__name__
    if not any("clusters" in client.state for client in clients):
        raise FedkinError(
            f'{name} has finished, and no client has clusters of its samples; a task should set state["clusters"], '
            "int64 with a number per sample."
        )
    n_clusters = found["n_clusters"]
    for client in clients:
        own = client.state.get("clusters")
        if own is not None and len(own) and not 0 <= int(own.min()) <= int(own.max()) < n_clusters:
            raise FedkinError(
                f"{name} has found {n_clusters} clusters, but numbers {int(own.min())} to {int(own.max())} are in "
                f'state["clusters"] of {fed.called_inside(client.id)}; they should be from 0 to {n_clusters - 1}.'
            )
