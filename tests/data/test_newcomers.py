"""Data of clients that join late."""

import torch

from fedkin.data.encoding import PreparingOptions
from fedkin.data.prepare import prepare, prepare_newcomers, welcome
from fedkin.data.scenarios.drift import Arrivals
from fedkin.data.scenarios.partition_scenario import Labelled
from fedkin.engines.local import LocalFederation
from prepared_tables import category, federation, number, table


def labelled():
    rng, y = torch.Generator().manual_seed(0), torch.arange(900) % 10
    return Labelled("pictures", torch.rand(900, 1, 4, 4, generator=rng), y, [str(c) for c in range(10)])


def test_newcomers_are_prepared_as_the_others():
    own = table(number("a", *range(20)), category("b", *["x", "y"] * 10))
    fed = federation(own, own.rows(torch.arange(5)))
    fed.away = {1}
    found = prepare(fed)
    fed.away = set()
    prepare_newcomers(fed, [fed.clients[1]], found)
    assert torch.equal(fed.clients[1].x, fed.clients[0].x[:5])


def test_newcomers_take_part_from_their_step_on_with_the_common_scaling():
    population = Arrivals(clients=12, step=5, changed_fraction=0.4).partition(labelled(), 0)
    raw = [client.x for client in population.clients]
    fed = LocalFederation(population.clients)
    fed.away = population.away(0)
    assert fed.away == {7, 8, 9, 10, 11}
    prepared = prepare(fed, PreparingOptions("standard"))
    assert torch.cat([fed.clients[i].x for i in range(7)]).mean().abs() < 1e-6
    exchange, sent = fed.exchange, fed.traffic.sent
    for step in range(5):
        welcome(fed, population.clients, population.away(step), prepared)
        assert (len(fed.away), fed.exchange, fed.traffic.sent) == (5, exchange, sent)
    assert all(torch.equal(fed.clients[i].x, raw[i]) for i in range(7, 12))
    welcome(fed, population.clients, population.away(5), prepared)
    assert fed.away == set()
    assert fed.exchange == exchange + 1
    assert fed.traffic.sent > sent
    assert all(torch.equal(fed.clients[i].x, prepared.apply(raw[i])) for i in range(12))
    welcome(fed, population.clients, population.away(6), prepared)
    assert all(torch.equal(fed.clients[i].x, prepared.apply(raw[i])) for i in range(12))
    assert fed.exchange == exchange + 1


def test_newcomers_that_remember_are_not_asked_again():
    population = Arrivals(clients=8, step=2).partition(labelled(), 0)
    fed = LocalFederation(population.clients)
    fed.away = population.away(0)
    prepared = prepare(fed, PreparingOptions("standard"))
    raw = population.clients[7].x
    for i in fed.away:  # as after a checkpoint
        population.clients[i].state = dict(population.clients[0].state)
    exchange = fed.exchange
    welcome(fed, population.clients, population.away(2), prepared)
    assert fed.exchange == exchange
    assert torch.equal(population.clients[7].x, prepared.apply(raw))


def test_data_that_stay_as_they_are_need_no_word():
    population = Arrivals(clients=8, step=2).partition(labelled(), 0)
    fed = LocalFederation(population.clients)
    fed.away = population.away(0)
    prepared, raw = prepare(fed), population.clients[7].x
    assert prepared.mode == "unit"
    exchange = fed.exchange
    welcome(fed, population.clients, population.away(2), prepared)
    assert (fed.away, fed.exchange) == (set(), exchange)
    assert population.clients[7].x is raw
