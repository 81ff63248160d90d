"""Messages of noisy sums: the noise, the budget, and clusters among them."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import pictures
import planted
from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.embedding import EmbeddingMethod
from fedkin.methods.clients.embedding_sums import (
    COUNTED,
    SENSITIVITY,
    ClassMeans,
    ask_class_sums,
    class_sums_of,
    cluster_class_means,
    deviation_of,
    find_centre,
    send_code_total,
)
from fedkin.nn.encoder import Encoder
from fedkin.privacy.budget import SPENT
from fedkin.privacy.gaussian import gaussian_delta, gaussian_mu

SPEC = {"name": "dense-autoencoder", "shape": [1, pictures.SIDE, pictures.SIDE], "output": "linear"}
ENCODER = Encoder.of(SPEC)
VECTOR = ENCODER.initial(torch.Generator().manual_seed(3))
CENTRE = torch.full((ENCODER.width,), 0.1)
FREE: dict[str, Any] = {"encoder": SPEC, "vector": VECTOR, "deviation": 0.0, "budget": math.inf}
HOW = FREE | {"centre": CENTRE, "radius": 0.5, "segments": pictures.CLASSES}
SETTINGS = pictures.TRAINING | {"rounds": 2, "pretraining_rounds": 0, "message": "sums"}
PAIRS = [0, 1, 2, 0, 1, 2]


def people(turns: list[int] = PAIRS, samples: int = 300) -> list[Client]:
    return [pictures.client(number, turn, samples) for number, turn in enumerate(turns)]


def without(client: Client, row: int) -> Client:
    rows = torch.arange(len(client)) != row
    return Client(client.id, client.x[rows], client.y[rows])


def sums(client: Client, **changed: Any) -> Tensor:
    found = class_sums_of(client, HOW | changed)
    assert found is not None
    return found


@pytest.mark.parametrize("changed", [{}, {"radius": 1e-20}, {"centre": torch.full((ENCODER.width,), 1e30)}])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e30, math.nan])
def test_whatever_a_server_asks_for_one_sample_changes_no_more_than_the_noise_is_made_for(
    changed: dict[str, Any], size: float
):
    client = pictures.client(0)
    client.x[7] *= size
    difference = sums(client, **changed) - sums(without(client, 7), **changed)
    assert float(difference.norm()) <= SENSITIVITY * (1 + 1e-4)
    (all_of_them,) = send_code_total.run([client], [FREE])
    (others,) = send_code_total.run([without(client, 7)], [FREE])
    assert float((all_of_them["total"] - others["total"]).norm()) <= SENSITIVITY * (1 + 1e-4)


def test_both_releases_together_spend_the_budget_and_no_other_is_granted():
    epsilon, delta = 2.0, 1e-4
    mu = gaussian_mu(epsilon, delta)
    client = pictures.client(0)
    fed = LocalFederation([client], workers=1)
    how = {"encoder": SPEC, "vector": VECTOR, "budget": mu}
    centre, radius, answered = find_centre(fed, how)
    assert list(answered) == [0]
    how |= {"centre": centre, "radius": radius, "segments": pictures.CLASSES, "deviation": deviation_of(mu)}
    assert list(ask_class_sums(fed, how, [0])) == [0]
    spent = math.sqrt(float(fed.clients[0].state[SPENT].sum()))
    assert spent == pytest.approx(gaussian_mu(epsilon, delta))
    assert gaussian_delta(epsilon, spent) == pytest.approx(delta, rel=1e-3)
    with pytest.raises(FedkinError, match=r"less left of their own budgets than method\.epsilon"):
        ask_class_sums(fed, how, [0])


def test_the_noise_has_the_deviation_that_the_server_takes_off():
    mu = gaussian_mu(4.0, 1e-5)
    client, deviation = pictures.client(0), deviation_of(mu)
    limits = {"deviation": deviation, "budget": mu}
    sent = [
        sums(Client(0, client.x, client.y, noise=torch.Generator().manual_seed(seed)), **limits) for seed in range(50)
    ]
    noise = torch.stack(sent) - sums(client)
    assert float(noise.std()) == pytest.approx(deviation, rel=0.05)
    assert float(noise.mean()) == pytest.approx(0.0, abs=5 * deviation / math.sqrt(noise.numel()))


def test_who_asks_again_gets_the_same_noise_and_it_costs_nothing():
    client, limits = pictures.client(0), {"deviation": 2.0, "budget": 1.0}
    assert torch.equal(sums(client, **limits), sums(client, **limits))
    assert client.state[SPENT].tolist() == pytest.approx([(SENSITIVITY / 2.0) ** 2])
    client.x = client.x + 1.0
    assert class_sums_of(client, HOW | limits | {"deviation": 1.2}) is None


@pytest.mark.parametrize("classes", [range(pictures.CLASSES), [1, 3, 4]])
def test_an_unseen_client_joins_its_cluster_within_the_budget(classes):
    done = planted.run(EmbeddingMethod(**SETTINGS), people(), seed=1)
    for turn in range(3):
        new = pictures.client(70 + turn, turn, 300, classes)
        own = Client(0, new.x, new.y, rng=torch.Generator().manual_seed(turn))
        assert EmbeddingMethod.assign(done.result, own) == done.labels[PAIRS.index(turn)]
    poor = Client(0, new.x, new.y, reserve=lambda mu: False)
    with pytest.raises(FedkinError, match="own budget is smaller than that of the run"):
        EmbeddingMethod.assign(done.result, poor)


def test_a_client_without_the_budget_is_left_out_and_if_all_are_the_run_ends():
    everybody = people()
    everybody[3].reserve = lambda mu: False
    fed = LocalFederation(everybody, workers=1)
    fed.clients[3].reserve = lambda mu: False
    method = EmbeddingMethod(**SETTINGS)
    state, record = method.step(fed, method.init(fed))
    assert record.answered == [0, 1, 2, 4, 5]
    for client in fed.clients.values():
        client.reserve = lambda mu: False
    with pytest.raises(FedkinError, match="less left of their own budgets"):
        method.step(fed, state)


CLASSES, WIDTH = 4, 6


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def known_noise_planted(labels: list[int], deviation: float, seed: int) -> Tensor:
    """Messages of clients in clusters whose classes have means of their own, of length 1/2."""
    draws = rng(seed)
    means = torch.randn(max(labels) + 1, CLASSES, WIDTH, generator=draws)
    means = 0.5 * torch.nn.functional.normalize(means, dim=2)
    messages = []
    counts = torch.full((CLASSES,), 100.0)
    for label in labels:
        spread = torch.randn(CLASSES, WIDTH, generator=draws) * (0.75 / WIDTH) ** 0.5  # of vectors of length 1
        exact = torch.cat(
            [counts[:, None] * means[label] + counts.sqrt()[:, None] * spread, COUNTED * counts[:, None]], 1
        )
        messages.append((exact + deviation * torch.randn(exact.shape, generator=draws)).flatten())
    return torch.stack(messages)


def found(messages: Tensor, deviation: float = 1.0, min_size: int = 2) -> list[int]:
    return cluster_class_means(ClassMeans.of(messages, CLASSES, deviation), min_size, rng()).tolist()


@pytest.mark.parametrize("deviation", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("n", [1, 3, 8, 40])
def test_where_there_is_nothing_but_noise_there_is_one_cluster(n, deviation):
    for seed in range(3):
        assert found(known_noise_planted([0] * n, deviation, seed=seed), deviation) == [0] * n
