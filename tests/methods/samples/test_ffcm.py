"""FFCM: what clients send, both ways to make centres of it, and when a run ends."""

import dataclasses

import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from fedkin.clustering.fuzzy_c_means import fuzzy_c_means
from fedkin.core import Client
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.ffcm import FFCMMethod, mean_by_index, move_centres
from fedkin.secure_aggregation.sums import secure

CENTRES = 8 * torch.eye(4, 6)
PAYLOAD = {
    "features": "raw",
    "centroids": CENTRES,
    "fuzziness": 1.5,
    "tolerance": 1e-4,
    "local_iterations": 200,
    "local_clusters": 4,
}


def make_client(i: int, held: list[int], each: int = 25) -> tuple[Client, torch.Tensor]:
    truth = torch.tensor(held).repeat_interleave(each)
    rng = torch.Generator().manual_seed(50 + i)
    return Client(i, CENTRES[truth] + torch.randn(len(truth), 6, generator=rng)), truth


def planted():
    made = [make_client(i, [0, 1, 2, 3]) for i in range(3)]
    return [client for client, _ in made], [truth for _, truth in made]


def run(method, clients, secure_sums=False, **options):
    fed = LocalFederation(clients, 0, workers=1, **options)
    if secure_sums:
        secure(fed, method)
    state = method.init(fed)
    states, records = [state], []
    while not state.finished:
        state, record = method.step(fed, state)
        states.append(state)
        records.append(record)
    return states, records


def agreement(clients, truth):
    return adjusted_rand_score(torch.cat(truth), torch.cat([client.state["clusters"] for client in clients]))


@pytest.mark.parametrize("aggregation", ["kmeans", "mean"])
@pytest.mark.parametrize("fuzziness", [1.1, 2.0])
def test_planted_clusters_are_found_and_centres_come_to_rest(aggregation, fuzziness):
    clients, truth = planted()
    states, records = run(FFCMMethod(n_clusters=4, aggregation=aggregation, fuzziness=fuzziness), clients)
    assert agreement(clients, truth) == 1.0
    assert 1 < len(records) < 20
    assert records[-1].values["moved"] <= 1e-4
    assert all(record.values["moved"] > 1e-4 for record in records[1:-1])
    assert torch.cdist(CENTRES, states[-1].centroids).amin(1).max() < 1.0


def test_it_starts_from_drawn_samples_as_in_the_paper():
    clients, _ = planted()
    fed = LocalFederation(clients, 0, workers=1)
    method = FFCMMethod(n_clusters=4, start="uniform", fuzziness=2.0)
    state = method.init(fed)
    assert state.centroids.shape == (4, 6)
    assert 0 <= state.centroids.min() <= state.centroids.max() <= 1
    assert method.ready(state)
    assert not method.ready(FFCMMethod(n_clusters=4).init(fed))
    images = [Client(0, torch.rand(5, 1, 3, 3))]
    drawn = method.init(LocalFederation(images, 0, workers=1)).centroids
    torch.testing.assert_close(drawn.norm(dim=1), torch.ones(4))


def test_a_client_sends_centres_supports_and_where_they_started():
    client, _ = make_client(0, [0, 1, 2, 3])
    reply = move_centres.run([client], [PAYLOAD])[0]
    expected = fuzzy_c_means(client.x, CENTRES, 1.5)
    torch.testing.assert_close(reply["centres"], expected.centres)
    torch.testing.assert_close(reply["supports"].sum(), torch.tensor(float(len(client))))
    assert reply["indices"].tolist() == [0, 1, 2, 3]
    assert set(reply) == {"centres", "supports", "indices", "iterations"}


def test_a_client_with_fewer_clusters_speaks_of_those_it_has():
    client, _ = make_client(0, [1, 3])
    reply = move_centres.run([client], [PAYLOAD | {"local_clusters": 2}])[0]
    assert reply["indices"].tolist() == [1, 3]
    torch.testing.assert_close(reply["centres"][0], client.x[:25].mean(0), atol=0.2, rtol=0)
    few = Client(1, client.x[:1])
    reply = move_centres.run([few], [PAYLOAD])[0]
    assert reply["indices"].tolist() == [1]
    assert len(move_centres.run([few], [PAYLOAD | {"centroids": torch.zeros(0, 0)}])[0]["centres"]) == 1


def reply(centres, supports, indices):
    return {"centres": torch.tensor(centres), "supports": torch.tensor(supports), "indices": torch.tensor(indices)}


def test_means_count_supports_and_keep_what_nobody_reports():
    before = torch.tensor([[1.0], [2.0], [3.0]])
    replies = [
        {
            "centres": torch.tensor([[0.0], [5.0]]),
            "supports": torch.tensor([3.0, 1.0]),
            "indices": torch.tensor([0, 2]),
        },
        {"centres": torch.tensor([[4.0]]), "supports": torch.tensor([1.0]), "indices": torch.tensor([0])},
    ]
    assert mean_by_index(before, replies).tolist() == [[1.0], [2.0], [5.0]]


def test_rounds_are_a_limit_and_a_round_in_which_nobody_answers_is_no_rest():
    clients, _ = planted()
    states, records = run(
        FFCMMethod(n_clusters=4, rounds=3, tolerance=1e-12), clients, failures=[(3, i) for i in range(3)]
    )
    assert len(records) == 3
    assert records[1].answered == []
    assert torch.equal(states[1].centroids, states[2].centroids)
    assert not states[2].finished
    assert all("clusters" in client.state for client in clients)


def test_centres_that_go_back_and_forth_are_at_rest_too():
    clients, _ = planted()
    method = FFCMMethod(n_clusters=4, rounds=9)
    fed = LocalFederation(clients, 0, workers=1)
    state, _ = method.step(fed, method.init(fed))
    state, _ = method.step(fed, state)
    rested, _ = method.step(fed, state)
    assert rested.finished
    swung = dataclasses.replace(state, before=rested.centroids, centroids=state.centroids + 0.3)
    after, record = method.step(fed, swung)
    assert record.values["moved"] > 0.1
    assert after.finished
    elsewhere = dataclasses.replace(swung, before=rested.centroids + 1.0)
    assert not method.step(fed, elsewhere)[0].finished


def test_with_sums_alone_it_finds_the_same_centres():
    method = FFCMMethod(n_clusters=4, aggregation="mean", start="uniform", fuzziness=2.0)
    (open_, plain), (hidden, secret) = (
        run(method, planted()[0], secure_sums=secure_sums) for secure_sums in (False, True)
    )
    assert len(plain) == len(secret) > 1
    for one, other in zip(open_, hidden, strict=True):
        torch.testing.assert_close(other.centroids, one.centroids, rtol=0, atol=1e-4)
    for one, other in zip(plain, secret, strict=True):
        assert other.answered == one.answered == [0, 1, 2]
        assert other.values["iterations"] == {}  # nobody knows them
