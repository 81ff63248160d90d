"""Tasks of FedDrift's clients: evaluate all models on held-out samples, and train on the other samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Client, Payload, client_task, task
from fedkin.core.replies import candidates, is_amount, is_number, reals, updates, within
from fedkin.methods.clients.client_tasks import labels_of, trained_updates, training_of
from fedkin.nn.classifier import Classifier
from fedkin.nn.client_stack import Job
from fedkin.nn.network_forms import CLASSIFIER, DESCENT

HELD_OUT = "held_out"
_JUDGED: Mapping[str, Any] = {"module": CLASSIFIER, "held_out": within(0, 1)}


@client_task(
    takes={**_JUDGED, "models": candidates("models", "size")},
    holds={"errors": reals(None, minimum=0, maximum=1), "samples": is_amount},
)
def judge(client: Client, payload: Payload) -> Payload:
    """Report the error rate of each model on the held-out samples, as ``errors`` ``(K,)``, and their number."""
    rows, _ = _divided(client, payload["held_out"])
    classifier, x, y = Classifier.of(payload["module"]), client.x[rows], labels_of(client)[rows]
    errors = [error_of(classifier, model, x, y) for model in payload["models"]]
    return {"errors": torch.tensor(errors), "samples": len(rows)}


@task(
    takes={**_JUDGED, "model": updates("size"), "training": DESCENT},
    holds={"update": updates(None), "samples": is_amount, "loss": is_number},
)
def train_on_kept(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Train on all but the held-out samples; report the update, their number and the training loss."""
    jobs: list[Job] = []
    for client, payload in zip(clients, payloads, strict=True):
        _, rows = _divided(client, payload["held_out"])
        job = training_of(client, payload, payload["model"])
        jobs.append(dataclasses.replace(job, x=job.x[rows], y=job.y[rows]))
    return trained_updates(jobs)


def error_of(classifier: Classifier, model: Tensor, x: Tensor, y: Tensor) -> float:
    """Return a model's error rate on the samples; 1 for a model that has diverged."""
    logits = classifier.logits(model, x)
    right = (logits.argmax(1) == y) & logits.isfinite().all(1)
    return 1.0 - float(right.double().mean())


def _divided(client: Client, fraction: float) -> tuple[Tensor, Tensor]:
    """Return the rows of held-out samples and of training samples, the same in all rounds."""
    n = len(client)
    every = torch.arange(n)
    if fraction == 0 or n < 2:
        return every, every
    held = client.state.get(HELD_OUT)
    if held is None or len(held) != n:
        held = torch.zeros(n, dtype=torch.bool)
        held[torch.randperm(n, generator=client.rng)[: min(n - 1, max(1, round(fraction * n)))]] = True
        client.state[HELD_OUT] = held
    return every[held], every[~held]
