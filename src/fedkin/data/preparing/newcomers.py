"""Clients that join late, whose data are prepared as everyone's before they take part."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set

from fedkin.core import Client, Federation, Payload, Task
from fedkin.core.replies import lasts
from fedkin.data.preparing.encoding.scaling import is_prepared, rescale
from fedkin.data.preparing.preparation import Preparation, restore_preparation
from fedkin.data.preparing.prepare import encode_table


def welcome(fed: Federation, clients: Sequence[Client], away: Set[int], preparation: Preparation) -> None:
    """Let those of the clients that are no longer `away` take part, with data prepared as everyone's.

    Raises FedkinError if a client that must receive the preparation cannot be reached.
    """
    joined = sorted(fed.away - away - fed.left_out.keys() - fed.spare)
    if joined:
        fed.away = fed.away.difference(joined)
        prepare_newcomers(fed, [clients[i] for i in joined], preparation)


def prepare_newcomers(fed: Federation, clients: Sequence[Client], preparation: Preparation) -> None:
    """Prepare the freshly loaded data of clients that have just joined, as everyone else's were.

    A client whose state has the preparation does it itself, as in a resumed run. Others receive it. Raises FedkinError
    if one cannot be reached.
    """
    new = [client.id for client in clients if not is_prepared(client)]
    for client in clients:
        restore_preparation(client)
    if new and (asked := _for_newcomers(preparation)):
        fed.ask_until_all_reply(*asked, new)


def prepare_arrivals(fed: Federation, arrived: Collection[int], preparation: Preparation) -> set[int]:
    """Let clients with spare ids take part, once their data are prepared as everyone's.

    Those that do not reply keep a spare id, and are tried again in the next step. Those whose data cannot be prepared
    are left out. Return those that take part from now on.
    """
    fed.away = fed.away.difference(arrived)
    ready, asked = set(arrived), _for_newcomers(preparation)
    if asked:
        task, payload = asked
        ready = set(fed.ask(task, dict.fromkeys(sorted(arrived), payload)))
        lasting = {i: reason for i, reason in fed.missing.items() if lasts(reason)}
        fed.away = fed.away | (set(arrived) - ready)
        fed.spare = fed.spare - lasting.keys()
        fed.leave_out(lasting)
    fed.spare = fed.spare - ready
    return ready


def _for_newcomers(preparation: Preparation) -> tuple[Task, Payload] | None:
    """Return the task that prepares a newcomer's data, and its payload; ``None`` if there is nothing to do."""
    if preparation.encoding is not None:
        return encode_table, {"encoding": preparation.encoding.tree()}
    if preparation.scaling is not None and preparation.mode in ("standard", "common"):
        scaling = preparation.scaling
        return rescale, {"mean": scaling.mean, "scale": scaling.scale, **scaling.limits}
    return None
