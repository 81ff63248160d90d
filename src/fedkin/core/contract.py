"""Checks at the boundary between a method and the engines: what a method or a task hands over is what was agreed.

A user's own method breaks the agreement most easily, and each check ends in one sentence at the place where it
happens, instead of a traceback where the value is first used. They look at types alone and cost next to nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedkin.core.client import Client
from fedkin.core.errors import FedkinError, RefusalError, kind_of
from fedkin.core.federation import Federation
from fedkin.core.method import Method, Record, State
from fedkin.core.payload import Payload, detached, find_unsupported
from fedkin.core.tasks import Task

_PLAIN = "tensors, numbers, strings, booleans, None, or lists and dicts of them"


def run_task(task: Task, clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Run a task, and return its replies, one for each client, whose tensors require no gradient.

    Raises
    ------
    RefusalError
        If it returns anything else, or has put something else than a tensor into a client's state: doing it again
        would not change that.
    """
    replies = task.run(clients, payloads)
    if not isinstance(replies, list | tuple) or len(replies) != len(clients):
        was = len(replies) if isinstance(replies, list | tuple) else kind_of(replies)
        raise RefusalError(
            f"Task '{task.name}' should return a list with one reply per client, {len(clients)} here, not {was}.",
            public=True,
        )
    for client, reply in zip(clients, replies, strict=True):
        if not isinstance(reply, Mapping):
            raise RefusalError(
                f"Task '{task.name}' should reply with a dict, {{}} if there is nothing, not {kind_of(reply)}.",
                public=True,
            )
        if (wrong := find_unsupported(reply)) is not None:
            raise RefusalError(f"Task '{task.name}' replies with {wrong}; a reply holds {_PLAIN}.")
        _check_state(task, client)
    return [detached(reply) for reply in replies]


def _check_state(task: Task, client: Client) -> None:
    """Check that a client's state has tensors by name, and clusters as they should be."""
    for name, value in client.state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            what = kind_of(value) if isinstance(name, str) else f"a key that is {kind_of(name)}"
            raise RefusalError(
                f"Task '{task.name}' has put {what} into client.state[{name!r}]; what a client keeps are tensors by "
                "name, such as torch.tensor(3)."
            )
    client.check_clusters()


def first_state(method: Method[Any], state: Any) -> Any:
    """Return what `init` of a method returned; raise FedkinError if that is not a state of the method."""
    name = type(method).__name__
    wanted = getattr(method, "state_type", None)
    if not (isinstance(wanted, type) and issubclass(wanted, State)):
        raise FedkinError(
            f"{name} does not say what its state is; give it the class attribute state_type, a dataclass that inherits "
            "fedkin.core.State."
        )
    if not isinstance(state, wanted):
        raise FedkinError(f"{name}.init should return a {wanted.__name__}, its state_type, not {kind_of(state)}.")
    _check_saved(name, "init", state)
    return state


def after_step(method: Method[Any], before: Any, answer: Any) -> tuple[Any, Record]:
    """Return the state and the record that a step of a method returned, the record's values as plain ones.

    `before` is the state that the step began with. Raises FedkinError if the step returned anything else, or the same
    number of steps, with which a run would never end.
    """
    name = type(method).__name__
    if isinstance(answer, tuple) and len(answer) == 2 and not isinstance(answer[1], Record):
        raise FedkinError(f"{name}.step should return a state and a Record, not a state and {kind_of(answer[1])}.")
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise FedkinError(f"{name}.step should return a state and a Record, not {kind_of(answer)}.")
    state, record = answer
    if not isinstance(state, type(before)):
        raise FedkinError(
            f"{name}.step should return a {type(before).__name__} beside the record, not {kind_of(state)}."
        )
    if state.steps != before.steps + 1:
        raise FedkinError(
            f"{name}.step was given a state of {before.steps} steps and returned one of {state.steps} instead of "
            f"{before.steps + 1}; state.next(...) counts them."
        )
    _check_saved(name, "step", state)
    if method.traits.clusters == "clients" and isinstance(getattr(before, "labels", None), Tensor):
        _check_placed(method, before, state)
    _check_clients(name, record)
    return state, dataclasses.replace(record, values=_plain(name, record.values))


def _check_placed(method: Method[Any], before: Any, state: Any) -> None:
    """Check that a state of clients' clusters has a label for every client, and a model for every label."""
    check_labels(method, state.labels, len(before.labels))
    models, earlier, name = state.models, before.models, type(method).__name__
    if state.module != before.module or not len(earlier) or not len(state.labels):
        return
    if models.dtype != earlier.dtype or models.ndim != 2 or models.shape[1] != earlier.shape[1]:
        was = f"{models.dtype} {tuple(models.shape)}".removeprefix("torch.")
        raise FedkinError(
            f"{name}.step returned a state with models {was}; they should be a row of {earlier.shape[1]:,} float32 for "
            "each cluster."
        )
    lowest, highest = int(state.labels.min()), int(state.labels.max())
    if lowest < -1 or highest >= len(models):
        wrong = lowest if lowest < -1 else highest
        raise FedkinError(
            f"{name}.step has put a client into cluster {wrong}, but the last model of its state is that of cluster "
            f"{len(models) - 1}, and -1 is for clients whose cluster is not known."
        )


def _check_clients(name: str, record: Record) -> None:
    """Check that a record has the ids of those that answered in a list, and of those that are missing in a dict."""
    answered, missing = record.answered, record.missing
    if not isinstance(answered, list) or not all(type(one) is int for one in answered):
        raise FedkinError(
            f"{name}.step has put {kind_of(answered)} into the record's 'answered'; it is a list of clients' ids, such "
            "as list(replies)."
        )
    if not isinstance(missing, Mapping) or not all(type(one) is int for one in missing):
        raise FedkinError(
            f"{name}.step has put {kind_of(missing)} into the record's 'missing'; it is a dict of why by clients' ids, "
            "such as replies.missing."
        )


def _check_saved(name: str, function: str, state: State) -> None:
    """Check that all fields of a state can be written into a checkpoint."""
    if (wrong := find_unsupported(state.tree())) is not None:
        raise FedkinError(f"{name}.{function} returned a state with {wrong}; a state holds {_PLAIN}.")


def check_result(method: Method[Any], found: Any) -> None:
    """Raise FedkinError if what `result` of a method returned cannot be written, or lacks ``n_clusters``."""
    name = type(method).__name__
    if not isinstance(found, Mapping):
        raise FedkinError(f"{name}.result should return a dict, not {kind_of(found)}.")
    if (wrong := find_unsupported(found)) is not None:
        raise FedkinError(f"{name}.result returned {wrong}; a result holds {_PLAIN}.")
    if method.traits.clusters is not None and type(found.get("n_clusters")) is not int:
        has = f"'n_clusters', {kind_of(found['n_clusters'])}," if "n_clusters" in found else "no 'n_clusters'"
        raise FedkinError(f"{name}.result has {has} where the number of clusters should be, a whole number.")


def predicted_clusters(method: Any, result: Mapping[str, Any], x: Tensor, **whose: Any) -> Tensor:
    """Have a method, or its class, predict samples ``(n, *shape)``; return what `checked_clusters` does.

    `whose` says whose model predicts, where clients have models. Raises FedkinError as it does, or if the result lacks
    what `predict` reads.
    """
    try:
        clusters = method.predict(result, x, **whose)
    except KeyError as error:
        name = (method if isinstance(method, type) else type(method)).__name__
        if error.args and error.args[0] in result:
            raise
        raise FedkinError(
            f"{name}.predict needs {error}, which is not in its result; {name}.result returns it."
        ) from error
    return checked_clusters(method, clusters, len(x))


def checked_clusters(method: Any, clusters: Any, samples: int) -> Tensor:
    """Return what `predict` of a method gave for so many samples; raise FedkinError if it is not int64 ``(n,)``.

    `method` is an instance or its class. Whole numbers of another type are taken as int64.
    """
    name = (method if isinstance(method, type) else type(method)).__name__
    wanted = f"the clusters of samples, a tensor int64 ({samples},)"
    if not isinstance(clusters, Tensor):
        raise FedkinError(f"{name}.predict should return {wanted}, not {kind_of(clusters)}.")
    if clusters.is_floating_point() or clusters.is_complex() or clusters.shape != (samples,):
        was = f"{str(clusters.dtype).removeprefix('torch.')} {tuple(clusters.shape)}"
        raise FedkinError(f"{name}.predict should return {wanted}, not {was}.")
    return clusters.long()


def check_labels(method: Method[Any], labels: Any, clients: int) -> None:
    """Check that a method that clusters clients has a label, int64, for each of them in its state."""
    if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.shape != (clients,):
        was = f"{labels.dtype} {tuple(labels.shape)}" if isinstance(labels, Tensor) else kind_of(labels)
        raise FedkinError(
            f"{type(method).__name__} has {was.removeprefix('torch.')} as its state's labels; they should be the "
            f"cluster of each client, a tensor int64 ({clients},)."
        )


def _plain(name: str, value: Any, path: str = "") -> Any:
    """Return values of a record with plain numbers in place of numpy's and torch's."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(name, one, f"{path}/{key}" if path else str(key)) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, one, f"{path}/{at}") for at, one in enumerate(value)]
    if isinstance(value, np.generic) or (isinstance(value, Tensor | np.ndarray) and value.ndim == 0):
        return _plain(name, value.item(), path)
    if isinstance(value, bool | int | float | str):  # a subclass, which JSON writes as what it is derived from
        return value
    raise FedkinError(
        f"{name}.step has put {kind_of(value)} into the record's values, '{path}'; they are numbers, strings, "
        "booleans, None, and lists and dicts of them, such as a tensor's tolist()."
    )


def result_of(method: Method[Any], fed: Federation, state: Any) -> dict[str, Any]:
    """Return the result of a method that has finished, in which clients that were left out have the label -1.

    Raises FedkinError if it is not as it should be, no client of this process has clusters of its samples where it
    should, or one has a number that is not among them.
    """
    found = method.result(state)
    check_result(method, found)
    if method.traits.clusters == "samples":
        _check_clustered(method, fed, found)
    elif fed.dropped and isinstance(labels := found.get("labels"), Tensor):
        found = {**found, "labels": labels.index_fill(0, torch.tensor(sorted(fed.dropped)), -1)}
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
    missing = dict(fed.dropped)
    if method.traits.clusters == "samples":
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
                f'state["clusters"] of {fed.client_phrase(client.id)}; they should be from 0 to {n_clusters - 1}.'
            )
