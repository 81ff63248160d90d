"""Pretraining of an autoencoder on a data set other than the clients' (Prigent et al. 2024, section V)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fedkin.core import Client, FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.data.preparation import prepare
from fedkin.data.sources import load
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.nn.descent import LocalTraining, train_locally
from fedkin.nn.encoder import Encoder, Pretrained, choose_autoencoder


def pretrain(
    source: str,
    path: Path,
    *,
    label: str | None = None,
    name: str = "auto",
    epochs: int = 20,
    samples: int | None = None,
    seed: int = 0,
    on_epoch: Callable[[int, int, float], None] = lambda epoch, epochs, error: None,
) -> Pretrained:
    """Pretrain an autoencoder on a data set, with Adam on the mean squared error, and write its encoder to a file.

    The file is written after every epoch. If it exists and was trained in the same way, training resumes from its last
    epoch, with the same result as without the interruption: each epoch has an optimiser and a shuffle of its own.

    The `source`, see `fedkin.data.sources.load`, is another data set than the clients', such as a public one, of which
    at most so many `samples` are drawn at random; its column `label` is ignored. The authors use 20 epochs of
    Fashion-MNIST, or 50 of CIFAR-100. `on_epoch` is called after each with its number, that of all, and its mean error.
    Raises FedkinError if the data cannot be loaded, the autoencoder `name` cannot take them or learns nothing from
    them, or `path` holds something else.
    """
    data = load(source, label)
    if samples is not None and samples < len(data):
        data = data.rows(torch.randperm(len(data), generator=derive_generator(seed, "samples"))[:samples])
    client = Client(0, data.x, table=data.table)
    mode = prepare(LocalFederation([client], seed)).encoding.mode
    x, shape = client.x, tuple(client.x.shape[1:])
    spec: dict[str, Any] = {"name": choose_autoencoder(shape) if name == "auto" else name, "shape": list(shape)}
    encoder = Encoder.of(spec | {"output": "sigmoid" if mode == "unit" else "linear"})
    as_authors: dict[str, Any] = {"batch_size": 32, "learning_rate": 1e-3}
    training = LocalTraining(epochs=1, optimizer="adam", **as_authors)
    how: dict[str, Any] = {"data": source, "label": label, "samples": len(x), "seed": seed, **as_authors}
    vector = encoder.initial(derive_generator(seed, "init"))
    trained = Pretrained(encoder.spec(), vector, how | {"epochs": 0, "seconds": 0.0})
    if path.exists():
        saved = Pretrained.load(path)
        if saved.spec == encoder.spec() and all(saved.about.get(key) == value for key, value in how.items()):
            trained = saved
        elif saved.about.get("epochs") != 0:  # one without an epoch is nobody's work
            raise FedkinError(f"'{path}' holds an encoder that was trained otherwise; give another --out.")
    trained.save(path)  # a path that cannot be written is refused before training
    for epoch in range(trained.about["epochs"] + 1, epochs + 1):
        start = time.perf_counter()
        with one_thread():
            vector, error = train_locally(
                encoder, trained.vector, x, x, derive_generator(seed, "epoch", epoch), training
            )
        if not math.isfinite(error):
            raise FedkinError(
                f"Training on '{source}' came to a mean squared error of {error} in epoch {epoch}; it needs more "
                f"samples than {len(x)}."
            )
        seconds = round(trained.about["seconds"] + time.perf_counter() - start, 1)
        trained = Pretrained(
            trained.spec, vector, trained.about | {"epochs": epoch, "error": error, "seconds": seconds}
        )
        trained.save(path)
        on_epoch(epoch, epochs, error)
    return trained
