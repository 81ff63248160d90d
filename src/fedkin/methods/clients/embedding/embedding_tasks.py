"""Tasks of clients in one-shot clustering by embeddings: train the encoder, and describe their data in a few bits."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits
from torch import Tensor

from fedkin.core import Client, Federation, Payload, client_task, task
from fedkin.core.client import LASTING
from fedkin.core.replies import MAX_CLASSES, counts_to, is_amount, is_flag, is_number, octets, one_of, updates, within
from fedkin.core.seeds import draw_seed
from fedkin.methods.clients.client_tasks import filling_of, means_by_class, trained_updates
from fedkin.nn.client_stack import Job
from fedkin.nn.descent import Descent
from fedkin.nn.encoder import Encoder, Pretrained, choose_autoencoder
from fedkin.nn.network_forms import DESCENT, ENCODER, MANY
from fedkin.privacy.randomised_response import binary, memorised, packed

ANSWERS, FILLING, CLUSTERING = (LASTING + name for name in ("answers", "filling", "clustering"))
"""Keys of a client's state: its random answer for either value of every bit, the codes of classes it does not have, and
the seed of its k-means, as centres in another order would give other answers for the same data."""


@client_task(takes={}, holds={"least": is_number, "greatest": is_number})
def extent(client: Client, payload: Payload) -> Payload:
    """Report the lowest and the highest value of a client's samples."""
    return {"least": float(client.x.min()), "greatest": float(client.x.max())}


def new_encoder(fed: Federation, shape: tuple[int, ...], name: str) -> Pretrained:
    """Return an untrained encoder for the clients' data, of the architecture `name`; "auto" chooses one."""
    replies = fed.ask_until_all_reply(extent, {}).values()
    in_unit = all(reply["least"] >= 0 and reply["greatest"] <= 1 for reply in replies)
    known = choose_autoencoder(shape) if name == "auto" else name
    encoder = Encoder.of({"name": known, "shape": shape, "output": "sigmoid" if in_unit else "linear"})
    return Pretrained(encoder.spec(), encoder.initial(fed.rng("encoder")), {})


@task(
    takes={"encoder": ENCODER, "vector": updates("size"), "training": DESCENT, "steps": counts_to(MANY, 0)},
    holds={"update": updates(None), "samples": is_amount, "loss": is_number},
)
def train_encoder(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Train the autoencoder on the client's samples; report the update, their number and the mean error."""
    jobs = []
    for client, payload in zip(clients, payloads, strict=True):
        training = Descent(**payload["training"])
        per_epoch = math.ceil(len(client) / training.batch_size)
        training = dataclasses.replace(training, epochs=max(training.epochs, math.ceil(payload["steps"] / per_epoch)))
        encoder = Encoder.of(payload["encoder"])
        jobs.append(Job(encoder, payload["vector"], client.x, client.x, client.rng, training))
    return trained_updates(jobs)


@client_task(
    takes={
        "encoder": ENCODER, "vector": updates("size"), "form": one_of("classes", "prototypes"),
        "segments": counts_to(MAX_CLASSES),
        "normalise": one_of("segment", "vector"), "batch_statistics": is_flag, "flip": within(0, 0.5),
    },
    holds={"bits": octets(None)},
)  # fmt: skip
def embed(client: Client, payload: Payload) -> Payload:
    """Report the client's message of randomised bits (algorithm 1), as ``bits``, eight to a byte.

    Messages of all clients have equal length. Random answers are sampled once and remembered, so that many messages
    reveal no more than one while the data stay the same.
    """
    message, remembered = message_of(client, payload)
    client.state.update(remembered)
    return {"bits": packed(message)}


def message_of(client: Client, how: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return a client's randomised bits, uint8 ``(segments * width,)``, and the random draws to repeat them.

    `how` has ``encoder`` and ``vector``; ``form``, ``segments``, ``normalise``, ``batch_statistics`` and ``flip``, see
    `EmbeddingMethod`.
    """
    segments, remembered = true_bits(client, how)
    answer, answers = memorised(segments.flatten(), how["flip"], client.state.get(ANSWERS), client.noise)
    return answer, remembered | {ANSWERS: answers}


def true_bits(client: Client, how: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return a client's bits ``(segments, width)`` before randomisation, and the draws it must remember."""
    encoder = Encoder.of(how["encoder"])
    filling = filling_of(client, FILLING, how["segments"], encoder.width)
    remembered = {FILLING: filling}

    def codes(x: Tensor) -> Tensor:
        return encoder.codes(how["vector"], x, how["batch_statistics"])

    if how["form"] == "classes":
        segments = means_by_class(client, filling, codes)
    else:
        seed = client.state.get(CLUSTERING)
        remembered[CLUSTERING] = torch.tensor(draw_seed(client.rng)) if seed is None else seed
        segments = _prototypes(codes(client.x), filling, int(remembered[CLUSTERING]))
    return binary(segments, how["normalise"]), remembered


def _prototypes(codes: Tensor, filling: Tensor, seed: int) -> Tensor:
    """Return the cluster centres of codes ``(prototypes, width)``, in any order; padded with `filling`."""
    segments = filling.clone()
    found = min(len(segments), len(codes.unique(dim=0)))
    with threadpool_limits(1, user_api="openmp"):  # sums over several threads depend on their order
        clusters = KMeans(found, n_init=3, random_state=seed).fit(codes.double().numpy())
    segments[:found] = torch.from_numpy(clusters.cluster_centers_).float()
    return segments
