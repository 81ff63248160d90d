"""FedRC: samples belong to clusters to a part, concept shift parts clients, and other classes do not."""

from pathlib import Path
from typing import Any

import pytest
import torch

import fedkin
import planted
from fedkin.core import FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.fedrc import (
    FedRCMethod,
    sample_losses,
    shares_of,
    weigh_and_train,
)
from fedkin.nn.modules import Classifier

SETTINGS: dict[str, Any] = planted.LEARNING | {"rounds": 8, "n_clusters": 2}
CLUSTERS = [0, 1, 1, 0, 1, 0]


def test_models_that_start_alike_are_refused():
    clients = [(one.x, one.y) for one in planted.clients(CLUSTERS, planted.OPPOSITE)]
    with pytest.raises(FedkinError, match=r"All 2 models start with the same .*; give a module that draws its weights"):
        fedkin.FedRC(**(SETTINGS | {"module": planted.zeros})).fit(clients)


@pytest.mark.parametrize("seed", range(3))
def test_swapped_labels_part_clients(seed):
    done = planted.run(FedRCMethod(**SETTINGS), planted.clients(CLUSTERS, planted.OPPOSITE), seed=seed)
    assert planted.same_partition(done.labels, CLUSTERS)
    memberships = done.result["memberships"]
    assert torch.allclose(memberships.sum(1), torch.ones(6), atol=1e-5)
    assert float(memberships.max(1).values.min()) > 0.65
    assert done.values[-1]["memberships"] == memberships.tolist()
    assert done.exchanges == [1] * 8


def test_parts_are_those_of_the_formula():
    losses = torch.tensor([[0.1, 2.0], [1.0, 0.5]])
    memberships, frequencies = torch.tensor([0.75, 0.25]), torch.tensor([[0.5, 0.5], [0.2, 0.8]])
    y = torch.tensor([0, 1])
    expected = memberships * (-losses).exp() / frequencies.T[y]
    assert torch.allclose(shares_of(losses, memberships, frequencies, y), expected / expected.sum(1, keepdim=True))
    diverged = torch.tensor([[torch.nan, 2.0], [torch.inf, 0.5]])
    assert shares_of(diverged, memberships, frequencies, y).tolist() == [[0.0, 1.0], [0.0, 1.0]]


def test_a_step_is_the_gradient_of_the_weighted_loss_and_classes_are_counted():
    one = planted.client(0)
    spec = FedRCMethod(**planted.FULL_BATCH).init(LocalFederation([one, planted.client(1)], workers=1)).module
    classifier = Classifier.of(spec)
    models = torch.randn(2, classifier.size, generator=torch.Generator().manual_seed(2))
    method = FedRCMethod(**planted.FULL_BATCH)
    payload = {
        "module": spec,
        "models": models,
        "memberships": torch.tensor([0.6, 0.4]),
        "frequencies": torch.full((2, 6), 1 / 6),
        "training": {**vars(method.descent())},
    }
    assert weigh_and_train.objection(payload) is None
    (reply,) = weigh_and_train.run([one], [payload])
    assert weigh_and_train.refusal(reply) is None
    shares = shares_of(
        sample_losses(classifier, models, one.x, one.y), *[payload[n] for n in ("memberships", "frequencies")], one.y
    )
    for k in range(2):
        module = classifier.module(models[k]).train()
        losses = torch.nn.functional.cross_entropy(module(one.x), one.y, reduction="none")
        (losses * shares[:, k]).mean().backward()
        gradient = torch.cat([part.grad.flatten() for part in module.parameters()])
        assert torch.allclose(reply["updates"][k], -0.5 * gradient, atol=1e-5)
        assert torch.allclose(reply["masses"][k], torch.stack([shares[one.y == c, k].sum() for c in range(6)]) / 24)
    assert torch.allclose(reply["memberships"], shares.mean(0))


def test_memberships_beyond_1_are_refused():
    state = FedRCMethod(**SETTINGS).init(LocalFederation(planted.clients([0, 1]), workers=1))
    reply = {
        "updates": torch.zeros_like(state.models), "memberships": torch.tensor([1.5, 0.0]),
        "masses": torch.zeros(2, 6), "samples": 3, "loss": 0.1,
    }  # fmt: skip
    assert "memberships" in str(weigh_and_train.refusal(reply))
    assert weigh_and_train.refusal(reply | {"memberships": torch.tensor([1.0, 0.0])}) is None
    assert weigh_and_train.refusal(reply | {"memberships": torch.ones(3)}) is not None


def test_memberships_are_in_the_runs_table_and_in_its_scores(tmp_path: Path):
    from fedkin.experiment.config import load_config
    from fedkin.experiment.run import execute

    settings = ["data.source=digits", "scenario.name=label-clusters", "method.rounds=1", "method.n_clusters=2"]
    outcome = execute(load_config("fedrc", [*settings, "method.module=perceptron"]), tmp_path / "run")
    header, first, *_ = (tmp_path / "run" / "clients.csv").read_text().splitlines()
    assert header == "client,cluster,membership_0,membership_1"
    assert sum(map(float, first.split(",")[2:])) == pytest.approx(1.0, abs=1e-3)
    assert 0 <= outcome.records[-1]["metrics"]["personal_accuracy"] <= 1


def test_a_client_predicts_with_all_models_as_it_belongs_to_them():
    done = planted.run(FedRCMethod(**SETTINGS), planted.clients(CLUSTERS, planted.OPPOSITE))
    classifier, x = Classifier.of(done.result["module"]), planted.client(9).x
    probabilities = torch.stack([classifier.logits(model, x).softmax(1) for model in done.result["models"]])
    expected = (done.result["memberships"][2][:, None, None] * probabilities).sum(0)
    assert torch.allclose(FedRCMethod.logits_of(done.result, x, client=2).exp(), expected, atol=1e-6)
    assert torch.equal(FedRCMethod.predict(done.result, x, client=2), expected.argmax(1))
    assert torch.equal(FedRCMethod.predict(done.result, x, cluster=1), probabilities[1].argmax(1))
