"""Data of clients that join late."""

import torch

from fedkin.data.preparing.newcomers import prepare_newcomers
from fedkin.data.preparing.prepare import prepare
from prepared_tables import category, federation, number, table


def test_newcomers_are_prepared_as_the_others():
    own = table(number("a", *range(20)), category("b", *["x", "y"] * 10))
    fed = federation(own, own.rows(torch.arange(5)))
    fed.away = {1}
    found = prepare(fed)
    fed.away = set()
    prepare_newcomers(fed, [fed.clients[1]], found)
    assert torch.equal(fed.clients[1].x, fed.clients[0].x[:5])
