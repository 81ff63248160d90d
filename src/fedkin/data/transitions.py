"""Rows by their cluster in an earlier result and in a new one: the table by which clusters keep their numbers.

A client assigns its rows by the earlier result, which it is sent as one is for predictions, and reports how many rows
of each earlier cluster are in each new one; of tables also what rows of each earlier cluster are like by now.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedkin.core import Client, Federation, Method, Payload, client_task
from fedkin.core.client import Table
from fedkin.core.errors import FedkinError, RefusalError
from fedkin.core.replies import MAX_COUNT, counts_to, int64, is_text
from fedkin.core.runner import predicted_clusters
from fedkin.core.seeds import Secret
from fedkin.core.tasks import named_object
from fedkin.data.encoding import Encoding
from fedkin.data.options import MIN_MEMBERS
from fedkin.data.preparation import encoding_of, is_encoding
from fedkin.data.profile import EARLIER, MAX_CLUSTERS, reportable
from fedkin.data.schema import aligned


@client_task(
    takes={
        "method": is_text, "result": lambda result: isinstance(result, dict), "encoding": is_encoding,
        "before": counts_to(MAX_CLUSTERS), "after": counts_to(MAX_CLUSTERS), "min_members": counts_to(MAX_COUNT),
    },
    holds={"table": int64("before", "after")},
    sends="How many rows of each earlier cluster are in each new one", fewest="min_members",
)  # fmt: skip
def count_transitions(client: Client, payload: Payload) -> Payload:
    """Report how many rows of each cluster ``before`` are in each ``after``; the former stay in the client's state.

    Of each new cluster, a site leaves cells of fewer than ``min_members`` out, so that none is found by subtraction; a
    simulated client counts all.
    """
    before, after = int(payload["before"]), int(payload["after"])
    clusters = client.state.get("clusters")
    if clusters is None:
        return {"table": torch.zeros(before, after, dtype=torch.int64)}
    method = named_object(payload["method"], "Method")
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise RefusalError(f"'{payload['method']}' is no method.", public=True)
    x = _encoded_as(client, Encoding.from_tree(payload["encoding"]))
    old = client.state[EARLIER] = predicted_clusters(method, payload["result"], x)
    floor = max(MIN_MEMBERS, int(payload["min_members"]), client.min_members)
    inside = clusters[:, None] == torch.arange(after)
    counted = reportable(old, inside, before, floor if isinstance(client.noise, Secret) else 1)
    return {"table": ((old == torch.arange(before)[:, None]).double() @ counted.double()).long()}


def _encoded_as(client: Client, encoding: Encoding) -> Tensor:
    """Return a client's rows as another encoding has them, whatever its own is."""
    if not encoding.shape and client.table is not None:
        return encoding.apply(client.table, "The client's table", client.table)
    current = encoding_of(client.state)
    if current is None or not current.is_scaled:
        return encoding.scaled(client.x)
    around = (1, -1) + (1,) * (client.x.ndim - 2)
    raw = client.x.double() * current.scale.view(around) + current.mean.view(around)
    same = torch.equal(current.mean, encoding.mean) and torch.equal(current.scale, encoding.scale)
    return client.x if same else encoding.scaled(raw)


def check_encodings(before: Encoding, now: Encoding, origin: str) -> None:
    """Raise FedkinError if rows as `now` encodes them lack what those `before` had; `origin` says whose are those."""
    if before.shape != now.shape:
        raise FedkinError(f"The data are of another form than those of {origin}, so that clusters keep no numbers.")
    aligned(Table(now.schema.columns, torch.zeros(0, len(now.schema.columns))), before.schema.columns, "The data", True)
    names = {*now.schema.names, *now.text_names}
    if lacking := [name for name in (*before.schema.names, *before.text_names) if name not in names]:
        raise FedkinError(f"The data have no column '{lacking[0]}', which those of {origin} had.")


def ask_transitions(fed: Federation, question: Payload) -> Tensor | None:
    """Return the sum of the clients' tables, int64 ``(before, after)``; ``None`` where there is none.

    `question` is as `count_transitions` takes it. Between machines the server sees the sum alone.
    """
    shape = (int(question["before"]), int(question["after"]))
    sums = fed.sums().ask(count_transitions, question, {"table": shape})
    return None if sums is None else sums["table"].round().long()
