import torch

import planted
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.client_method import round_record


def test_the_record_of_a_round():
    fed = LocalFederation(planted.clients([0] * 5), workers=1)
    fed.missing = {4: "no reply"}
    record = round_record(fed, {2: 1.0, 0: 3.0}, torch.tensor([0, 2, 2, -1, 0]), temperature=0.5)
    assert record.answered == [0, 2]
    assert record.missing == {4: "no reply"}
    assert record.values == {
        "loss": 2.0,
        "clusters": 2,
        "sizes": [2, 0, 2],
        "labels": [0, 2, 2, -1, 0],
        "losses": {"2": 1.0, "0": 3.0},
        "temperature": 0.5,
    }
    empty = round_record(fed, {}, torch.full((5,), -1))
    assert (empty.values["loss"], empty.values["clusters"], empty.values["sizes"]) == (None, 0, [])
