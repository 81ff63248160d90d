import dataclasses
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedkin.core import Client
from fedkin.core.seeds import derive_generator
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.client_method import train
from fedkin.nn.descent import LocalTraining, train_locally
from fedkin.nn.modules import Classifier
from fedkin.nn.resident import vector_of

IMAGE = (1, 8, 8)


def normed(shape, classes):
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, classes)
    )


def dropped(shape, classes):
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3), nn.ReLU(), nn.Dropout2d(0.3), nn.Flatten(), nn.AlphaDropout(0.5),
        nn.Linear(144, classes),
    )  # fmt: skip


def frozen(shape, classes):
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, classes))
    module[1].requires_grad_(False)
    return module


NORMED, DROPPED, FROZEN = (f"{__name__}:{factory}" for factory in ("normed", "dropped", "frozen"))


def rng(*path):
    return derive_generator(0, "descent", *path)


def problem(name, n=37, client=0):
    classifier = Classifier.of({"name": name, "shape": IMAGE, "classes": 3})
    x = torch.rand(n, *IMAGE, generator=rng("x", client))
    return classifier, classifier.initial(rng("w")), x, torch.randint(3, (n,), generator=rng("y", client))


def batches(n, descent, rng):
    """Rows of the batches of every epoch, in a plain way."""
    if descent.steps is None:
        for _ in range(descent.epochs):
            yield from torch.randperm(n, generator=rng).split(descent.batch_size)
        return
    made = 0
    while True:
        for rows in torch.randperm(n, generator=rng).split(descent.batch_size):
            if made == descent.steps:
                return
            made += 1
            yield rows


def plainly(classifier, start, x, y, rng, descent):
    """What torch does by its own modules, autograd and optimisers."""
    module = classifier.module(start).train()
    origin = [parameter.detach().clone() for parameter in module.parameters()]
    if descent.optimizer == "adam":
        optimizer = torch.optim.Adam(module.parameters(), lr=descent.learning_rate, weight_decay=descent.weight_decay)
    else:
        optimizer = torch.optim.SGD(
            module.parameters(),
            lr=descent.learning_rate,
            momentum=descent.momentum,
            weight_decay=descent.weight_decay,
        )
    losses = []
    for rows in batches(len(x), descent, rng):
        loss = cross_entropy(module(x[rows]), y[rows])
        pull = sum((p - o).square().sum() for p, o in zip(module.parameters(), origin, strict=True))
        optimizer.zero_grad()
        (loss + descent.proximal / 2 * pull).backward()
        optimizer.step()
        losses.append((float(loss.detach()), len(rows)))
    last = losses[-math.ceil(len(x) / descent.batch_size) :]
    return vector_of(module), sum(loss * count for loss, count in last) / sum(count for _, count in last)


@pytest.mark.parametrize("name", ["perceptron", "lenet5", "gradient-loss-cnn", NORMED, FROZEN])
@pytest.mark.parametrize(
    "descent",
    [
        LocalTraining(epochs=2, batch_size=8, learning_rate=0.1),
        LocalTraining(epochs=2, batch_size=8, learning_rate=0.05, momentum=0.9, weight_decay=0.1),
        LocalTraining(epochs=3, batch_size=10, learning_rate=0.1, proximal=0.5, momentum=0.5),
        LocalTraining(steps=7, batch_size=10, learning_rate=0.01, optimizer="adam", weight_decay=0.1, proximal=0.5),
        LocalTraining(steps=2, batch_size=64, learning_rate=0.1),
    ],
    ids=["sgd", "momentum", "proximal", "adam", "steps"],
)
def test_training_is_that_of_plain_torch(name, descent):
    classifier, start, x, y = problem(name)
    before = start.clone()
    model, loss = train_locally(classifier, start, x, y, rng("train"), descent)
    expected, expected_loss = plainly(classifier, start, x, y, rng("train"), descent)
    assert torch.equal(start, before)
    assert (expected - start).abs().max() > 1e-3
    torch.testing.assert_close(model, expected, rtol=1e-3, atol=2e-5)
    assert loss == pytest.approx(expected_loss, rel=1e-4)


def test_a_batch_of_one_is_skipped_where_a_batch_norm_could_not_learn():
    classifier, start, x, y = problem(NORMED, 17)
    descent = LocalTraining(batch_size=16, learning_rate=0.1)
    model, loss = train_locally(classifier, start, x, y, rng("train"), descent)
    rows = torch.randperm(17, generator=rng("train"))[:16]
    module = classifier.module(start).train()
    expected = cross_entropy(module(x[rows]), y[rows])
    assert loss == pytest.approx(float(expected.detach()), rel=1e-5)
    assert model[-1] == 1.0  # one batch went through the batch norm
    assert model.isfinite().all()


def federation(name, sizes, **engine):
    clients = []
    for i, n in enumerate(sizes):
        _, _, x, y = problem(name, n, i)
        clients.append(Client(i, x, y))
    return LocalFederation(clients, seed=5, **engine)


def replies(name, sizes, **engine):
    classifier, start, _, _ = problem(name)
    fed = federation(name, sizes, **engine)
    training = dataclasses.asdict(LocalTraining(epochs=2, batch_size=8, learning_rate=0.1, momentum=0.9))
    return fed.ask(train, fed.all(module=classifier.spec(), model=start, training=training)), fed.missing


@pytest.mark.parametrize("name", ["perceptron", "lenet5", NORMED, DROPPED])
def test_workers_and_chunks_change_no_bit_and_touch_no_global_generator(name):
    sizes = [20, 3, 41, 8, 16, 9]
    before = torch.get_rng_state()
    alone, _ = replies(name, sizes, chunk=1, workers=1)
    for chunk, workers in ((1, 3), (4, 2), (6, 1)):
        found, _ = replies(name, sizes, chunk=chunk, workers=workers)
        assert found.keys() == alone.keys()
        for client, reply in found.items():
            assert torch.equal(reply["update"], alone[client]["update"])
            assert reply["loss"] == alone[client]["loss"]
    assert torch.equal(torch.get_rng_state(), before)
