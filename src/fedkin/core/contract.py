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
        returned = len(replies) if isinstance(replies, list | tuple) else kind_of(replies)
        raise RefusalError(
            f"Task '{task.name}' should return a list with one reply per client, {len(clients)} here, not {returned}.",
            public=True,
        )
    for client, reply in zip(clients, replies, strict=True):
        if not isinstance(reply, Mapping):
            raise RefusalError(
                f"Task '{task.name}' should reply with a dict, {{}} if there is nothing, not {kind_of(reply)}.",
                public=True,
            )
        if (unsupported := find_unsupported(reply)) is not None:
            raise RefusalError(f"Task '{task.name}' replies with {unsupported}; a reply holds {_PLAIN}.")
        for name, value in client.state.items():
            if not isinstance(name, str) or not isinstance(value, Tensor):
                what = kind_of(value) if isinstance(name, str) else f"a key that is {kind_of(name)}"
                raise RefusalError(
                    f"Task '{task.name}' has put {what} into client.state[{name!r}]; what a client keeps are tensors "
                    "by name, such as torch.tensor(3)."
                )
        clusters = client.state.get("clusters")
        if clusters is not None and not _are_labels(clusters, len(client)):
            raise RefusalError(
                f'A task has set state["clusters"] of client {client.id} to {_form(clusters)}; it should be a tensor '
                f"with a whole number per sample, int64 ({len(client)},)."
            )
    return [detached(reply) for reply in replies]


def first_state(method: Method[Any], state: Any) -> Any:
    """Return what `init` of a method returned; raise FedkinError if that is not a state of the method."""
    name, state_type = type(method).__name__, getattr(method, "state_type", None)
    if not (isinstance(state_type, type) and issubclass(state_type, State)):
        raise FedkinError(
            f"{name} does not say what its state is; give it the class attribute state_type, a dataclass that inherits "
            "fedkin.core.State."
        )
    if not isinstance(state, state_type):
        raise FedkinError(f"{name}.init should return a {state_type.__name__}, its state_type, not {kind_of(state)}.")
    _check_plain(f"{name}.init returned a state with", state.tree())
    return state


def after_step(method: Method[Any], before: Any, answer: Any) -> tuple[Any, Record]:
    """Return the state and the record that a step of a method returned, the record's values as plain ones.

    `before` is the state that the step began with. Raises FedkinError if the step returned anything else, or the same
    number of steps, with which a run would never end.
    """
    name = type(method).__name__
    is_pair = isinstance(answer, tuple) and len(answer) == 2
    if not is_pair or not isinstance(answer[1], Record):
        returned = f"a state and {kind_of(answer[1])}" if is_pair else kind_of(answer)
        raise FedkinError(f"{name}.step should return a state and a Record, not {returned}.")
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
    _check_plain(f"{name}.step returned a state with", state.tree())
    if method.traits.clusters == "clients" and isinstance(getattr(before, "labels", None), Tensor):
        _check_placed(method, before, state)
    answered: Any = record.answered
    missing: Any = record.missing
    for field, value, kind, words in (
        ("answered", answered, list, "a list of clients' ids, such as list(replies)"),
        ("missing", missing, Mapping, "a dict of why by clients' ids, such as replies.missing"),
    ):
        if not isinstance(value, kind) or not all(type(client) is int for client in value):
            raise FedkinError(f"{name}.step has put {kind_of(value)} into the record's '{field}'; it is {words}.")
    return state, dataclasses.replace(record, values=_plain(name, record.values))


def _check_placed(method: Method[Any], before: Any, state: Any) -> None:
    """Check that a state of clients' clusters has a label for every client, and a model for every label."""
    check_labels(method, state.labels, len(before.labels))
    name, count = type(method).__name__, len(state.models)
    if len(before.models) and state.module == before.module and state.models.shape[1:] != before.models.shape[1:]:
        raise FedkinError(f"{name}.step returned models {_form(state.models)}, beside {_form(before.models)} before.")
    if len(before.models) and any(not -1 <= label < count for label in state.labels.tolist()):
        raise FedkinError(f"{name}.step returned labels outside of -1, for not known, to {count - 1}, the last model.")


def _check_plain(beginning: str, tree: Any) -> None:
    """Check that a state or a result can be written into a file."""
    if (unsupported := find_unsupported(tree)) is not None:
        raise FedkinError(f"{beginning} {unsupported}; it holds {_PLAIN}.")


def check_result(method: Method[Any], result: Any) -> None:
    """Raise FedkinError if what `result` of a method returned cannot be written, or lacks ``n_clusters``."""
    name = type(method).__name__
    if not isinstance(result, Mapping):
        raise FedkinError(f"{name}.result should return a dict, not {kind_of(result)}.")
    _check_plain(f"{name}.result returned", result)
    if method.traits.clusters is not None and type(result.get("n_clusters")) is not int:
        has = f"'n_clusters', {kind_of(result['n_clusters'])}," if "n_clusters" in result else "no 'n_clusters'"
        raise FedkinError(f"{name}.result has {has} where the number of clusters should be, a whole number.")


def predicted_clusters(method: Any, result: Mapping[str, Any], x: Tensor, **whose: Any) -> Tensor:
    """Have a method, or its class, predict samples ``(n, *shape)``; return their clusters, int64 ``(n,)``.

    `whose` says whose model predicts, where clients have models. Whole numbers of another type are taken as int64.
    Raises FedkinError if the method returns anything else, or its result lacks what `predict` reads.
    """
    name = (method if isinstance(method, type) else type(method)).__name__
    try:
        clusters = method.predict(result, x, **whose)
    except KeyError as error:
        if error.args and error.args[0] in result:
            raise
        raise FedkinError(
            f"{name}.predict needs {error}, which is not in its result; {name}.result returns it."
        ) from error
    is_whole = isinstance(clusters, Tensor) and not (clusters.is_floating_point() or clusters.is_complex())
    if not is_whole or clusters.shape != (len(x),):
        rule = f"the clusters of samples, a tensor int64 ({len(x)},)"
        raise FedkinError(f"{name}.predict should return {rule}, not {_form(clusters)}.")
    labels: Tensor = clusters.long()
    return labels


def check_labels(method: Method[Any], labels: Any, clients: int) -> None:
    """Check that a method that clusters clients has a label, int64, for each of them in its state."""
    if not _are_labels(labels, clients):
        raise FedkinError(
            f"{type(method).__name__} has {_form(labels)} as its state's labels; they should be the cluster of each "
            f"client, a tensor int64 ({clients},)."
        )


def _are_labels(value: Any, count: int) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.int64 and value.shape == (count,)


def _form(value: Any) -> str:
    """Return a tensor's type and shape, and of anything else what it is."""
    is_tensor = isinstance(value, Tensor)
    return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}" if is_tensor else kind_of(value)


def _plain(name: str, value: Any, path: str = "") -> Any:
    """Return values of a record with plain numbers in place of numpy's and torch's."""
    if isinstance(value, Mapping):
        return {str(key): _plain(name, item, f"{path}/{key}" if path else str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, item, f"{path}/{index}") for index, item in enumerate(value)]
    if isinstance(value, np.generic) or (isinstance(value, Tensor | np.ndarray) and value.ndim == 0):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise FedkinError(
        f"{name}.step has put {kind_of(value)} into the record's values, '{path}'; they are numbers, strings, "
        "booleans, None, and lists and dicts of them, such as a tensor's tolist()."
    )


# What is known of clients when a method has finished.


def result_of(method: Method[Any], fed: Federation, state: Any) -> dict[str, Any]:
    """Return the result of a method that has finished, in which clients that were left out have the label -1.

    Raises FedkinError if it is not as it should be, no client of this process has clusters of its samples where it
    should, or one has a number that is not among them.
    """
    returned = method.result(state)
    check_result(method, returned)
    result = dict(returned)
    if method.traits.clusters == "samples":
        _check_clustered(method, fed, result["n_clusters"])
    elif fed.dropped and isinstance(labels := result.get("labels"), Tensor):
        result["labels"] = labels.index_fill(0, torch.tensor(sorted(fed.dropped)), -1)
    return result


def _check_clustered(method: Method[Any], fed: Federation, n_clusters: int) -> None:
    """Check the clusters of samples that a method has left at the clients of this process, if any."""
    name = type(method).__name__
    if any(i in fed.clients for i in fed.present) and not clustered(fed):
        raise FedkinError(
            f'{name} has finished, and no client has clusters of its samples; a task should set state["clusters"], '
            "int64 with a number per sample."
        )
    for client in clustered(fed):
        clusters = client.state["clusters"]
        if len(clusters) and not 0 <= int(clusters.min()) <= int(clusters.max()) < n_clusters:
            raise FedkinError(
                f"{name} has found {n_clusters} clusters, but numbers {int(clusters.min())} to {int(clusters.max())} "
                f'are in state["clusters"] of {fed.client_phrase(client.id)}; they should be from 0 to '
                f"{n_clusters - 1}."
            )


def clustered(fed: Federation) -> list[Client]:
    """Return the clients of this process that take part to the end and have clusters of their samples, in order."""
    return [fed.clients[i] for i in fed.present if i in fed.clients and "clusters" in fed.clients[i].state]


def used_clusters(labels: Iterable[Tensor]) -> int:
    """Return the number of clusters with members in any of `labels`, int64 ``(n,)`` each; below 0 is none.

    Of samples it is known only where the clients are in this process: on a real federation none reports its clusters.
    """
    return len({cluster for each in labels for cluster in each.unique().tolist() if cluster >= 0})


def without_result(method: Method[Any], fed: Federation) -> dict[int, str]:
    """Return the clients of this process that have no part in the result though they began, and why."""
    missing = dict(fed.dropped)
    if method.traits.clusters == "samples":
        clustered_ids = {client.id for client in clustered(fed)}
        missing |= {
            i: fed.missing.get(i, "no reply") for i in fed.present if i in fed.clients and i not in clustered_ids
        }
    return dict(sorted(missing.items()))
