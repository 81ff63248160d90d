"""FLUX: descriptors are moments by hand, dense regions are found without their number, and newcomers need no labels."""

from typing import Any

import pytest
import torch

import pictures
import planted
from fedkin.methods.clients.flux import FLUXMethod, dense, moments_of, nearest_distances
from fedkin.nn.modules import Classifier

TURNED: dict[str, Any] = pictures.TRAINING | {"rounds": 3, "local_steps": 3}
RENAMED = TURNED | {"rounds": 4, "warm_up": 2, "min_size": 2}
SPEC = {"name": "planted:linear", "shape": (planted.CLASSES,), "classes": planted.CLASSES}
IDENTITY = torch.eye(planted.CLASSES)


def how() -> dict[str, Any]:
    classifier = Classifier.of(SPEC)
    reference = classifier.initial(torch.Generator().manual_seed(0))
    return {"module": classifier.spec(), "reference": reference, "projection": IDENTITY}


def test_moments_are_those_of_what_the_last_layer_is_given():
    one = planted.client(0)
    keep = one.y != 2
    one.x, one.y = torch.cat([one.x[keep], one.x[:1]]), torch.cat([one.y[keep], torch.tensor([2])])
    means, deviations = moments_of(one, how())
    assert means.shape == deviations.shape == (1 + planted.CLASSES, planted.CLASSES)
    assert torch.allclose(means[0], one.x.mean(0), atol=1e-6)
    assert torch.allclose(deviations[2], one.x[one.y == 1].std(0, correction=0), atol=1e-6)
    assert means[3].tolist() == deviations[3].tolist() == [-1.0] * planted.CLASSES  # one sample has no deviation
    one.y = None
    assert torch.equal(moments_of(one, how())[0][0], means[0])
    assert bool((moments_of(one, how())[0][1:] == -1).all())


def test_dense_regions_and_points_that_are_alone():
    points = torch.tensor([[0.0], [0.9], [1.8], [9.0], [5.0], [9.5]])
    assert nearest_distances(points)[0] == pytest.approx(0.5)
    assert dense(points, 1.0).tolist() == [0, 0, 0, 1, 2, 1]
    for seed in range(100):
        assert dense(torch.randn(84, generator=torch.Generator().manual_seed(seed)).repeat(5, 1), 0.0).sum() == 0


def test_turned_pictures_are_told_apart_and_newcomers_without_labels_join_them():
    done = planted.run(FLUXMethod(**TURNED, min_size=2, radius=2.15), pictures.clients())
    assert planted.same_partition(done.labels, pictures.TURNS)
    assert not FLUXMethod.assigns_by_labels(done.result)
    for turn in range(3):
        new = pictures.client(50 + turn, turn, samples=60)
        with_labels = FLUXMethod.assign(done.result, new)
        new.y = None
        assert FLUXMethod.assign(done.result, new) == with_labels == done.labels[pictures.TURNS.index(turn)]
