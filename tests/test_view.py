import numpy as np
import pytest
import torch

from fedkin.config import Config, load_config
from fedkin.core import Client
from fedkin.data.scaling import Scaling
from fedkin.data.scenario import Population
from fedkin.report import RunView
from fedkin.view import view_of


@pytest.fixture
def config(toy: None) -> Config:
    return load_config("toy", ["scenario.name=toy"])


def scaling(mode: str, shape: tuple[int, ...], mean: float = 0.0, scale: float = 1.0) -> Scaling:
    return Scaling(mode, shape, torch.full(shape[:1], mean).double(), torch.full(shape[:1], scale).double())


def view(config: Config, x: torch.Tensor, scaled: Scaling, *records: dict) -> RunView:
    groups = torch.tensor([0, 2, 2, 2])
    clients = [Client(0, x, state={"groups": groups}), Client(1, x[:2], state={"groups": groups[:2]}), Client(2, x)]
    return view_of(config, Population(clients, None, []), scaled, records)


def record(step: int, **changes: object) -> dict:
    return {"step": step, "missing": {}, "values": {}, "metrics": {}, "sent": 5 * step, "received": step, **changes}


def test_groups_are_counted_per_site(config: Config) -> None:
    table = view(config, torch.zeros(4, 3), scaling("standard", (3,))).table
    assert table is not None
    assert (table.sites, table.groups, table.counts.tolist()) == (["0", "1"], [0, 2], [[1, 3], [1, 1]])


def test_tables_show_the_mean_of_each_column(config: Config) -> None:
    shown = view(config, torch.arange(12.0).view(4, 3), scaling("standard", (3,)))
    assert shown.pictures == ()
    assert shown.profiles is not None
    np.testing.assert_allclose(shown.profiles.means, [[0, 1, 2], [5.25, 6.25, 7.25]])


@pytest.mark.parametrize(("channels", "shape"), [(1, (5, 4)), (2, (5, 4)), (3, (5, 4, 3))])
def test_images_show_mean_and_members_as_they_were(config: Config, channels: int, shape: tuple[int, ...]) -> None:
    scaled = scaling("standard", (channels, 5, 4), mean=0.25, scale=0.5)
    shown = view(config, torch.full((4, channels, 5, 4), 0.5), scaled)
    first, second = shown.pictures
    assert (first.group, first.size, first.sites, second.group, second.size, second.sites) == (0, 2, 2, 2, 4, 2)
    assert first.mean.shape == shape
    assert second.members.shape == (4, *shape)
    assert (first.mean == 0.5).all()
    assert shown.profiles is None


def test_numbers_become_curves_headlines_and_notes(config: Config) -> None:
    records = (
        record(1, values={"links": 3}, metrics={"accuracy": 0.5}),
        record(2, values={"links": 4, "cut": None}, metrics={"accuracy": None}, missing={"1": "no reply"}),
    )
    shown = view(config, torch.zeros(4, 3), scaling("none", (3,)), *records)
    assert [(curve.title, curve.unit) for curve in shown.curves] == [
        ("accuracy", "number"),
        ("links", "count"),
        ("traffic", "bytes"),
    ]
    assert shown.curves[0].series == {"accuracy": [0.5, None]}
    assert [row[:2] for row in shown.summary] == [("links", "4"), ("traffic", "0.0 MB")]
    assert shown.notes == ["Step 2: site 1 was missing (no reply)."]
    assert shown.lead == "3 sites hold 10 samples that never left them; 2 groups were found across them, in 2 steps."
    assert shown.profiles is None


def test_a_run_without_steps_has_a_page(config: Config) -> None:
    shown = view(config, torch.zeros(4, 3), scaling("none", (3,)))
    assert (shown.curves, shown.summary, shown.notes) == ([], [], [])
