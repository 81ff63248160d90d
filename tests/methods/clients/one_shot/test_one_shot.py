"""Clustering clients once by one message each: how clusters form, train and take newcomers in."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import planted
from fedkin.core import FedkinError
from fedkin.methods.clients.client_method import UNKNOWN
from fedkin.methods.clients.fedavg import FedAvgMethod
from fedkin.methods.clients.one_shot.one_shot import cluster_balls
from one_message import CLUSTERS, SETTINGS, SWAPS, OneMessage, Watched, clustered, make_clients, mean_step, steps


def test_everybody_sends_one_message_and_then_every_cluster_trains_a_model_of_its_own():
    fed = Watched(make_clients())
    method = OneMessage(**SETTINGS)
    made = steps(method, fed, method.init(fed), 5)
    everyone = list(range(12))
    assert fed.asked == [("describe", everyone), ("report_means", everyone), *[("train", everyone)] * 4]
    records = [record for _, record in made]
    assert [record.values["phase"] for record in records] == ["embedding", *["training"] * 4]
    assert all(record.answered == everyone and not record.missing for record in records)
    assert all(planted.same_partition(record.values["labels"], CLUSTERS) for record in records)
    assert all(record.values["sizes"] == [4, 4, 4] for record in records)
    assert [state.finished for state, _ in made] == [False] * 4 + [True]
    assert {"moved", "founded", "newcomers"}.isdisjoint(records[-1].values)


@pytest.mark.parametrize("weighting", ["samples", "clients"])
def test_a_cluster_trains_as_if_it_were_alone(weighting):
    unequal = [planted.client(at, SWAPS[one], samples=18 + 6 * (at % 3)) for at, one in enumerate(CLUSTERS)]
    settings = SETTINGS | {"weighting": weighting, "local_steps": 3}
    done = planted.run(OneMessage(**settings), unequal, seed=2)
    assert planted.same_partition(done.labels, CLUSTERS)
    for own in range(3):
        inside = [client for client in unequal if done.labels[client.id] == own]
        alone = planted.run(FedAvgMethod(**settings), inside, seed=2)
        assert torch.allclose(done.states[-1].models[own], alone.states[-1].models[0], atol=1e-6)


def test_who_was_lost_then_gets_a_cluster_as_soon_as_it_answers_and_nobody_else_is_asked():
    clusters = [*CLUSTERS, 0, 1, 2]
    fed = Watched(make_clients(clusters), failures=[(2, 3), (2, 8), (3, 8)])
    method = OneMessage(**SETTINGS)
    (first, record), (_, later), (third, last) = steps(method, fed, method.init(fed), 3)
    assert sorted(record.missing) == [3, 8]
    assert record.answered == [i for i in range(15) if i not in (3, 8)]
    assert first.labels[[3, 8]].tolist() == [UNKNOWN, UNKNOWN]
    assert later.values["newcomers"] == [[3, int(first.labels[1])]]
    assert 8 in later.missing
    assert last.values["newcomers"] == [[8, int(first.labels[1])]]
    assert last.missing == {}
    found = [asked for name, asked in fed.asked if name == "report_means"]
    assert found == [list(range(15)), [3, 8], [8]]
    trained = [asked for name, asked in fed.asked if name == "train"]
    assert trained == [[i for i in range(15) if i != 8], list(range(15))]
    assert planted.same_partition(third.labels.tolist(), clusters)
    assert len(third.models) == 3


def test_enough_newcomers_that_are_alike_found_a_cluster():
    fed = Watched(make_clients([*CLUSTERS, 3, 3, 3]))
    fed.away = {12, 13, 14}
    method = OneMessage(**SETTINGS, min_size=3)
    state = clustered(method, fed)
    fed.away = set()
    _, record = method.step(fed, state)
    assert record.values["newcomers"] == [[12, 3], [13, 3], [14, 3]]
    assert record.values["founded"] == [3]


def test_layers_that_all_clusters_share_move_by_the_mean_of_all_clients():
    together, apart = (planted.run(OneMessage(**SETTINGS, shared_layers=layers), make_clients()) for layers in (1, 0))
    start, weights = together.states[1].models[0], planted.CLASSES**2
    everyone = mean_step(together.fed, together.states[1].module, start, range(12))
    for own in range(3):
        after, alone = together.states[2].models[own], apart.states[2].models[own]
        assert torch.allclose(after[:weights] - start[:weights], everyone[:weights], atol=1e-6)
        assert torch.equal(after[weights:], alone[weights:])
        assert not torch.allclose(after[:weights], alone[:weights], atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_lost_clients_are_no_accident(seed):
    clusters = [0, 1, 2] * 8
    done = planted.run(
        OneMessage(**(SETTINGS | {"rounds": 6}), refresh=2), make_clients(clusters), seed=seed, drop_rate=0.3
    )
    assert len(done.records) == 7
    assert bool(done.states[-1].models.isfinite().all())
    assert any(record.missing for record in done.records)
    for record in done.records:
        assert not set(record.answered) & set(record.missing)
    known = [i for i in range(24) if done.labels[i] != UNKNOWN]
    assert len(known) > 20
    assert planted.same_partition([done.labels[i] for i in known], [clusters[i] for i in known])


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=14), st.integers(0, 99))
def test_how_far_clusters_reach_is_given_by_leaving_every_member_out(labels, seed):
    messages = torch.randn(len(labels), 3, generator=torch.Generator().manual_seed(seed))
    centroids, reach = cluster_balls(messages, torch.tensor(labels), 4)
    apart: dict[int, list[float]] = {}
    for k in range(4):
        inside = [messages[at].double() for at, label in enumerate(labels) if label == k]
        if not inside:
            assert bool((centroids[k] == torch.inf).all())
            continue
        assert torch.allclose(centroids[k], torch.stack(inside).mean(0))
        if len(inside) > 1:
            apart[k] = [
                float((one - torch.stack([*inside[:at], *inside[at + 1 :]]).mean(0)).norm())
                for at, one in enumerate(inside)
            ]
    if not apart:
        assert bool((reach == torch.inf).all())
        return
    every = [distance for own in apart.values() for distance in own]
    means = {k: sum(own) / len(own) for k, own in apart.items()}
    spread = (sum((d - means[k]) ** 2 for k, own in apart.items() for d in own) / len(every)) ** 0.5
    for k in range(4):
        assert float(reach[k]) == pytest.approx(means.get(k, sum(every) / len(every)) + 4 * spread)


def test_messages_are_asked_for_again_but_not_for_ever():
    exchanges = [(1 + attempt, client) for attempt in range(1, 30) for client in range(12)]
    fed = Watched(make_clients(), failures=exchanges)
    method = OneMessage(**SETTINGS)
    state = method.init(fed)
    for _ in range(19):
        state, record = method.step(fed, state)
        assert record.values["labels"] == [-1] * 12
    with pytest.raises(FedkinError, match=r"messages of 1 or more clients .* attempt 20 of 20 \(lost on purpose\)"):
        method.step(fed, state)
