"""Every task of the library says what it takes, and private tasks take nothing that multiplies a sample."""

import importlib
import pkgutil
from types import SimpleNamespace

import pytest
import torch

import fedkin
from fedkin.core import Client
from fedkin.core.errors import RefusalError
from fedkin.core.tasks import _TASKS
from fedkin.engines.site import Request, Site
from fedkin.methods.samples.kingraph.private_kingraph import send_noisy_sums


def test_every_task_of_the_library_says_what_it_takes():
    for module in pkgutil.walk_packages(fedkin.__path__, "fedkin."):
        if any(room in module.name for room in (".methods", ".secure", ".data.")):
            importlib.import_module(module.name)
    own = [task for name, task in sorted(_TASKS.items()) if name.startswith("fedkin.")]
    assert len(own) > 50
    assert [task.name for task in own if task.takes is None] == []


def request_of(rows=None, **changes):
    space = {"features": "raw", "projection": None, "bound": 1.0, "mean": torch.zeros(3), "directions": torch.eye(3)}
    payload = {"space": space, "centres": torch.zeros(2, 3), "radius": 1.0, "deviation": 1.0, "budget": 10.0}
    payload |= {name: value for name, value in changes.items() if name in payload}
    payload["space"] = space | {name: value for name, value in changes.items() if name in space}
    return payload


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"mean": torch.zeros(5, 3)}, "space/mean"),
        ({"radius": torch.tensor([[1.0], [1.0]])}, "radius"),
        ({"radius": 0.0}, "radius"),
        ({"bound": torch.ones(5, 1)}, "space/bound"),
        ({"deviation": -1.0}, "deviation"),
        ({"centres": torch.zeros(2, 3, dtype=torch.float64)}, "centres"),
        ({"directions": torch.full((3, 3), float("nan"))}, "space/directions"),
        ({"features": "fedkin.features.gradients:anything"}, "space/features"),
    ],
)
def test_a_private_site_refuses_what_would_change_the_weight_of_a_sample(tmp_path, changes, field):
    client = Site("a", tmp_path, torch.rand(5, 3), account=SimpleNamespace(reserve=lambda run, mu: True))
    asked = Request("ab", 0, 0, 1, 0, send_noisy_sums.name)
    reply, _ = client.answer(asked, request_of())
    assert float(reply["counts"].sum()) < 50
    with pytest.raises(RefusalError, match=f"'{field}'"):
        client.answer(asked, request_of(**changes))


def test_one_row_per_sample_or_nothing():
    client = Client(0, torch.rand(5, 3))
    client.rng = client.noise = torch.Generator()
    (reply,) = send_noisy_sums.run([client], [request_of()])
    assert reply["sums"].shape == (2, 3)
