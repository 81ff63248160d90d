"""MUFC: seeds are those of k-means++, clusters are found in one round, and what is forgotten leaves no trace."""

from collections import Counter

import pytest
import torch
from sklearn.metrics import adjusted_rand_score

import fedkin
from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.mufc import FORGOTTEN, MUFCMethod, draw_centroids, drawn_rows, forget

CENTRES = 12 * torch.eye(4, 6)
HOW = {"features": "raw", "local_clusters": 3, "grid": 0.0}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def planted(each: int = 15) -> tuple[list[Client], list[torch.Tensor]]:
    """Four clusters, of which every client holds two."""
    truths = [torch.tensor([i, (i + 1) % 4]).repeat_interleave(each) for i in range(4)]
    people = [
        Client(i, CENTRES[t] + 0.5 * torch.randn(len(t), 6, generator=generator(i))) for i, t in enumerate(truths)
    ]
    return people, truths


def run(method: MUFCMethod, people: list[Client], **options):
    fed = LocalFederation(people, 0, workers=1, **options)
    state = method.init(fed)
    state, record = method.step(fed, state)
    return fed, state, record


@pytest.mark.parametrize("options", [{}, {"grid": 0.0}, {"local_clusters": 2}])
def test_planted_clusters_are_found_in_one_round(options):
    people, truth = planted()
    fed, state, _ = run(MUFCMethod(n_clusters=4, **options), people)
    found = torch.cat([one.state["clusters"] for one in people])
    assert adjusted_rand_score(torch.cat(truth), found) == 1.0
    assert fed.exchange == 3  # shapes, seeds, clusters
    assert {name: int(own.sum()) for name, own in state.sizes.items()} == {str(i): 30 for i in range(4)}


def test_points_are_samples_rounded_to_the_grid():
    people, _ = planted()
    _, state, _ = run(MUFCMethod(n_clusters=4, grid=0.5), people)
    for one in people:
        points = state.points[str(one.id)]
        assert torch.equal((points / 0.5).round() * 0.5, points)
        assert torch.equal(points, (one.x[one.state["centroid_rows"]] / 0.5).round() * 0.5)


def test_seeds_are_drawn_by_their_squared_distance():
    """The second seed of four points on a line, the first being the first: 1, 4 and 9 of 14."""
    points, everybody = torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.ones(4, dtype=torch.bool)
    rng = generator(5)
    drawn = Counter(drawn_rows(points, everybody, 2, rng, [0])[1] for _ in range(1400))
    assert [drawn[row] for row in range(4)] == pytest.approx([0, 100, 400, 900], abs=60)
    assert drawn_rows(torch.ones(5, 2), torch.ones(5, dtype=torch.bool), 3, rng) != []
    assert len(drawn_rows(torch.ones(5, 2), torch.ones(5, dtype=torch.bool), 3, rng)) == 1


def test_forgetting_leaves_the_distribution_of_a_run_without_the_samples():
    """Seeds of five points, one of which is forgotten afterwards, against seeds of the four: the same, pair by pair."""
    points = torch.tensor([[0.0], [1.0], [2.5], [4.0], [7.0]])
    without, afterwards = Counter(), Counter()
    rng = generator(1)
    present = torch.tensor([True, True, True, False, True])
    for _ in range(3000):
        without[tuple(drawn_rows(points, present, 2, rng))] += 1
        client = Client(0, points, rng=rng)
        draw_centroids.run([client], [HOW | {"local_clusters": 2}])
        forget.run([client], [HOW | {"local_clusters": 2, "rows": torch.tensor([3])}])
        afterwards[tuple(client.state["centroid_rows"].tolist())] += 1
    assert set(without) == set(afterwards)
    assert all(3 not in pair for pair in afterwards)
    for pair, count in without.items():
        assert afterwards[pair] == pytest.approx(count, abs=4 * (2 * count) ** 0.5 + 5)


def test_samples_and_clients_are_forgotten_with_a_certificate():
    people, _ = planted()
    method = MUFCMethod(n_clusters=4)
    fed, state, _ = run(method, people)
    state, certificate = method.unlearned(fed, state, {1: torch.tensor([0, 1, 2]), 3: None})
    assert certificate["request"] == 1
    assert certificate["samples"] == 3 * 30 - 3
    assert certificate["clients"]["3"] == {"rows": None, "kept": 0, "drawn": 0}
    assert certificate["clients"]["1"]["rows"] == 3
    assert list(state.points) == ["0", "1", "2"]
    assert people[1].state["clusters"][:3].tolist() == [FORGOTTEN] * 3
    assert int(people[1].state["clusters"][3:].min()) >= 0
    state, certificate = method.unlearned(fed, state, {1: torch.arange(3, 30)})
    assert list(state.points) == ["0", "2"]
    assert certificate["request"] == 2
    with pytest.raises(FedkinError, match="Nothing would be left"):
        method.unlearned(fed, state, {0: None, 2: None})
    with pytest.raises(FedkinError, match="has no part in the clusters"):
        method.unlearned(fed, state, {3: None})


def test_a_client_that_does_not_answer_changes_nothing():
    people, _ = planted()
    method = MUFCMethod(n_clusters=4)
    fed, state, _ = run(method, people)
    fed.failures = {(exchange, 1) for exchange in range(99)}
    with pytest.raises(FedkinError, match="has not forgotten its samples"):
        method.unlearned(fed, state, {1: torch.tensor([0])})
    with pytest.raises(FedkinError, match="has drawn no centroids"):
        forget.run([Client(0, torch.ones(2, 2))], [HOW | {"rows": torch.tensor([0])}])
    with pytest.raises(FedkinError, match="Row 30 is not among the 30 rows"):
        forget.run([people[0]], [HOW | {"rows": torch.tensor([30])}])


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"client": 9}, "client is 9; numbers are positions, 0 to 3"),
        ({"client": 0, "rows": [30]}, "rows are from 30 to 30; allowed: 0 to 29"),
        ({"client": 0, "rows": []}, "one or more row numbers"),
        ({"client": 0, "rows": [0.5]}, "one or more row numbers"),
    ],
)
def test_bad_requests_are_refused(asked, said):
    given = [one.x.numpy() for one in planted()[0]]
    model = fedkin.MUFC(n_clusters=4, scaling="none", random_state=0).fit(given)
    with pytest.raises(FedkinError, match=said):
        model.forget(X=given, **asked)
    with pytest.raises(FedkinError, match="has 3 rows, but had 30"):
        model.forget(1, [given[0][:3], *given[1:]])
    assert model.certificates_ == []
