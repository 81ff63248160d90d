"""Sums over clients that kin-graph needs where micro-clusters are common, and the tasks that are summed.

Where three clients or more take part, what each of them adds is hidden by masks, see `fedkin.secure`, whether or not
the run asks for secure sums. Otherwise the server adds up what it receives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedkin.core import Client, Federation, Payload, Task, task
from fedkin.core.replies import doubles, positive, whole
from fedkin.data.preparing.fixed_point import UNITS, of_digits, to_digits
from fedkin.features.pca import FeatureMoments
from fedkin.methods.samples.kingraph.kingraph_tasks import SPACE, client_features, neighbour_scatter
from fedkin.methods.samples.kingraph.whitening import MIN_SAMPLES
from fedkin.secure.sum_tasks import Term
from fedkin.secure.sums import check_enough, summed
from fedkin.secure.taking_part import MIN_CLIENTS

MAX_HIDDEN = 64
"""Maximum number of clients whose sums are hidden unless the run asks for it: each pair of clients needs a mask."""
_ATTEMPTS = 3
_BATCH = 2048
_DIGITS = len(UNITS)


def can_hide(clients: int) -> bool:
    """Whether sums over so many clients are hidden without being asked for."""
    return MIN_CLIENTS <= clients <= MAX_HIDDEN


class ClientSums:
    """Sums over all clients present, exchange by exchange, and who took part.

    Attributes
    ----------
    hidden : bool
        Whether the server sees sums alone.
    answered : list of int
        Clients in every sum so far.
    missing : dict of int to str
        Clients that are not, and why.
    exchanges : int
        Number of sums asked for.
    """

    def __init__(self, fed: Federation) -> None:
        if fed.secure_sums:
            check_enough(len(fed.present))
        self.fed = fed
        self.hidden = fed.secure_sums or can_hide(len(fed.present))
        self.answered, self.missing, self.exchanges = list(fed.present), dict[int, str](), 0

    def ask(self, asked: Task, payload: Payload, wanted: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor] | None:
        """Sums of the clients' replies to `asked`, float64, by name; ``None`` if there is no sum.

        Parameters
        ----------
        asked : Task
        payload : dict
            What every client is sent.
        wanted : mapping of str to tuple of int
            Shapes of the tensors of a reply that are summed.
        """
        self.exchanges += 1
        payloads, totals, answered = self.fed.all(**payload), None, list[int]()
        if self.hidden:
            terms = [Term(name, shape) for name, shape in wanted.items()]
            for attempt in range(_ATTEMPTS):
                if attempt:
                    self.fed.pause(attempt)
                if found := summed(self.fed, asked, payloads, terms).get(0):
                    answered, totals = found.clients, found.totals
                    break
        elif replies := self.fed.ask_again(asked, payloads, _ATTEMPTS, dict(wanted)):
            answered = list(replies)
            totals = {name: torch.stack([reply[name].double() for reply in replies.values()]).sum(0) for name in wanted}
        self.missing.update(self.fed.missing)
        self.answered = [client for client in self.answered if client in set(answered)]
        return totals

    def facts(self) -> dict[str, object]:
        """How it was summed, for the record."""
        return {"exchanges": self.exchanges, "sums": "hidden" if self.hidden else "seen by the server"}


@task(
    takes={"space": SPACE},
    holds={"count": whole(1), "total": doubles(_DIGITS, "width"), "squares": doubles(_DIGITS, 1)},
)
def send_feature_sums(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Send count, sum and sum of squares of a client's features, the last two in pieces of different size."""
    replies: list[Payload] = []
    for client, payload in zip(clients, payloads, strict=True):
        features = client_features(client, payload["space"])
        squares = sum(batch.double().square().sum() for batch in features.split(_BATCH))
        replies.append(
            {
                "count": torch.tensor([len(client)]),
                "total": to_digits(features.sum(0, dtype=torch.float64)),
                "squares": to_digits(torch.as_tensor(squares, dtype=torch.float64)[None]),
            }
        )
    return replies


@task(takes={"space": SPACE, "scale": positive}, holds={"scatter": doubles(None)})
def send_feature_scatter(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Send the lower triangle of the outer products of a client's features about the common mean, in units of scale."""
    replies: list[Payload] = []
    for client, payload in zip(clients, payloads, strict=True):
        mean, scale = payload["space"]["mean"], payload["scale"]
        scatter = torch.zeros(len(mean), len(mean), dtype=torch.float64)
        for batch in client_features(client, payload["space"]).split(_BATCH):
            centred = (batch - mean) / scale
            scatter += centred.T @ centred
        replies.append({"scatter": scatter[tuple(torch.tril_indices(len(mean), len(mean)))]})
    return replies


@task(takes={"space": SPACE}, holds={"samples": whole(1), "scatter": doubles("components", "components")})
def send_neighbour_scatter(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Send the scatter between neighbouring samples times their number, and that number; zeros for fewer than 64."""
    replies: list[Payload] = []
    for client, payload in zip(clients, payloads, strict=True):
        width = payload["space"]["directions"].shape[1]
        samples = len(client) if len(client) >= MIN_SAMPLES else 0
        scatter = torch.zeros(width, width, dtype=torch.float64)
        if samples:
            scatter = samples * neighbour_scatter(client, payload["space"])
        replies.append({"samples": torch.tensor([samples]), "scatter": scatter})
    return replies


def summed_moments(sums: ClientSums, space: Payload, width: int) -> FeatureMoments | None:
    """Moments of the features of all clients' samples, from two sums; ``None`` if there is none.

    Parameters
    ----------
    sums : ClientSums
    space : dict
        Parameters of `features_of`.
    width : int
        Number of features.
    """
    wanted = {"count": (1,), "total": (_DIGITS, width), "squares": (_DIGITS, 1)}
    first = sums.ask(send_feature_sums, {"space": space}, wanted)
    if first is None:
        return None
    count, total = float(first["count"]), of_digits(first["total"])
    scale = math.sqrt(float(of_digits(first["squares"])) / count) or 1.0
    centred = space | {"mean": (total / count).float(), "directions": torch.zeros(width, 0)}
    second = sums.ask(
        send_feature_scatter, {"space": centred, "scale": scale}, {"scatter": (width * (width + 1) // 2,)}
    )
    if second is None:
        return None
    scatter = torch.zeros(width, width, dtype=torch.float64)
    rows, columns = torch.tril_indices(width, width)
    scatter[rows, columns] = second["scatter"] * scale**2
    return FeatureMoments(count, total, scatter + scatter.tril(-1).T)


def summed_differences(sums: ClientSums, space: Payload) -> tuple[Tensor, int] | None:
    """Mean scatter between neighbours, float64 ``(d, d)``, and the samples it is of; ``None`` if there is no sum."""
    width = space["directions"].shape[1]
    found = sums.ask(send_neighbour_scatter, {"space": space}, {"samples": (1,), "scatter": (width, width)})
    if found is None:
        return None
    samples = round(float(found["samples"]))
    return found["scatter"] / max(samples, 1), samples
