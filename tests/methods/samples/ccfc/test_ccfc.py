"""CCFC and SCFC."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from fedkin.clustering.metrics import clustering_accuracy
from fedkin.core import Client, Federation, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.ccfc import ccfc
from fedkin.methods.samples.ccfc.augmentation import PillowAugmentation, augmentation_for
from fedkin.methods.samples.ccfc.ccfc import CCFCMethod, SCFCMethod, initial_model
from fedkin.methods.samples.ccfc.contrastive import Contrastive

TINY: dict[str, Any] = {
    "n_clusters": 3, "pretrain_rounds": 2, "cluster_rounds": 2, "batch_size": 8, "latent": 6, "restarts": 2
}  # fmt: skip


def make_clients(sizes: tuple[int, ...] = (24, 16, 20), spread: float = 0.08) -> tuple[list[Client], list[Tensor]]:
    """Samples around three corners of a cube of 12 dimensions, and which."""
    rng = torch.Generator().manual_seed(1)
    corners = (torch.rand(3, 12, generator=rng) > 0.5).float()
    truth = [torch.randint(3, (size,), generator=rng) for size in sizes]
    noise = [spread * torch.randn(size, 12, generator=rng) for size in sizes]
    return [Client(i, corners[y] + e) for i, (y, e) in enumerate(zip(truth, noise, strict=True))], truth


def run(method: CCFCMethod, clients: list[Client], **options: Any) -> tuple[list[Any], list[Any], LocalFederation]:
    fed = LocalFederation(clients, seed=3, **options)
    states, records = [method.init(fed)], []
    while not states[-1].finished:
        state, record = method.step(fed, states[-1])
        states.append(state)
        records.append(record)
    return states, records, fed


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[int, Any], dict[int, Any]]]:
    """Every exchange: the task, what went out and what came back."""
    exchanges: list[tuple[str, dict[int, Any], dict[int, Any]]] = []
    stream = Federation.stream

    def listen(fed: Federation, task: Any, payloads: Any, *more: Any) -> Any:
        replies: dict[int, Any] = {}
        exchanges.append((task.name.rpartition(".")[2], dict(payloads), replies))
        for client, reply in stream(fed, task, payloads, *more):
            replies[client] = reply
            yield client, reply

    monkeypatch.setattr(Federation, "stream", listen)
    return exchanges


def test_both_phases_follow_each_other(exchanges):
    clients, _ = make_clients()
    states, records, _ = run(CCFCMethod(**TINY), clients)
    names = [name for name, _, _ in exchanges]
    assert names == ["describe", "learn_views", "learn_views", "locate", "learn_clusters", "learn_clusters", "finish"]
    assert [record.values["phase"] for record in records] == ["views", "views", "clusters", "clusters"]
    assert [CCFCMethod(**TINY).ready(state) for state in states] == [False, False, True, True, True]
    assert set(exchanges[1][2][0]) == {"model", "samples", "loss"}
    assert set(exchanges[4][2][0]) == {"model", "samples", "loss", "centroids"}
    assert set(clients[0].state) == {"clusters", "confidence"}


def test_models_are_averaged_by_samples_with_statistics_and_counters(exchanges):
    clients, _ = make_clients()
    states, _, _ = run(CCFCMethod(**TINY), clients)
    replies = exchanges[1][2]
    mean = sum(reply["model"].double() * len(clients[i]) for i, reply in replies.items()) / 60
    network = Contrastive.of(states[0].network)
    assert torch.allclose(states[1].models["all"].double(), mean, atol=1e-6)
    assert network.floats < network.size == len(mean)
    counters = [float(reply["model"][-1]) for reply in replies.values()]
    assert counters == [6.0, 4.0, 6.0]  # two views of each batch of 8, of 24, 16 and 20 samples
    assert float(states[1].models["all"][-1]) == pytest.approx((24 * 6 + 16 * 4 + 20 * 6) / 60)


def test_local_centroids_are_of_the_clients_own_network_and_clusters_of_the_common_one(exchanges):
    clients, _ = make_clients()
    states, _, _ = run(CCFCMethod(**TINY), clients)
    network = Contrastive.of(states[0].network)
    _, asked, replies = exchanges[5]
    for i, reply in replies.items():
        nearest = torch.cdist(reply["centroids"], network.latents(reply["model"], clients[i].x))
        assert float(nearest.min(1).values.max()) < float(nearest.median())
        assert torch.equal(asked[i]["model"], states[3].models["all"])
        assert torch.equal(asked[i]["centroids"], states[3].centroids["all"])
    last = states[-1]
    assert torch.allclose(last.centroids["all"].norm(dim=1), torch.ones(3), atol=1e-5)
    for client in clients:
        latents = normalize(network.module(last.models["all"]).encoder(client.x), dim=1)
        assert torch.equal(client.state["clusters"], (latents @ last.centroids["all"].T).argmax(1))


def test_adam_remembers_within_a_phase_only():
    clients, _ = make_clients()
    method, fed = CCFCMethod(**TINY), LocalFederation(clients, seed=3)
    state, steps = method.init(fed), []
    while state.steps < 3:
        state, _ = method.step(fed, state)
        steps.append(float(clients[0].state["adam_steps"]))
    assert steps == [3.0, 6.0, 3.0]


def test_without_clusters_it_is_scfc(exchanges):
    alone = {name: value for name, value in TINY.items() if name != "cluster_rounds"}
    short, _, _ = run(SCFCMethod(**alone), make_clients()[0])
    whole, _, _ = run(CCFCMethod(**TINY), make_clients()[0])
    assert torch.equal(short[-1].models["all"], whole[2].models["all"])
    assert torch.equal(short[-1].centroids["all"], whole[2].centroids["all"])


def test_clusters_of_an_untrained_network_can_be_learned_too(exchanges):
    run(CCFCMethod(**TINY | {"pretrain_rounds": 0}), make_clients()[0])
    assert [name for name, _, _ in exchanges] == ["describe", "locate", "learn_clusters", "learn_clusters", "finish"]


@pytest.mark.parametrize("start", ["own", "common"])
def test_clients_begin_with_models_of_their_own_or_with_one_and_go_on_with_one(exchanges, start):
    states, _, _ = run(CCFCMethod(**TINY, start=start), make_clients()[0])
    first, second = (asked for _, asked, _ in exchanges[1:3])
    assert torch.equal(initial_model(first[0]), initial_model(first[1])) == (start == "common")
    assert not any(isinstance(value, torch.Tensor) for value in first[0].values())  # a seed stands for the model
    assert all(torch.equal(second[i]["model"], states[1].models["all"]) for i in range(3))


def test_every_start_has_a_seed_of_its_own_for_every_client_and_run(exchanges):
    seeds = []
    for seed in (3, 4):
        method, fed = CCFCMethod(**TINY), LocalFederation(make_clients()[0], seed=seed)
        method.step(fed, method.init(fed))
        seeds += [asked["begin"] for asked in exchanges[-1][1].values()]
    assert len(set(seeds)) == len(seeds) == 6


def test_clients_learn_from_the_views_that_are_asked_for(exchanges, monkeypatch):
    made = []
    apply = PillowAugmentation.apply
    monkeypatch.setattr(PillowAugmentation, "apply", lambda *given: made.append(apply(*given)) or made[-1])
    x = torch.rand(3, 8, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    clients = [Client(i, own) for i, own in enumerate(x)]
    quick, _, _ = run(CCFCMethod(**TINY), clients)
    assert not made
    exact, _, _ = run(CCFCMethod(**TINY, views="pillow"), clients)
    assert len(made) == 2 * 3 * 2  # rounds, clients, two views of a batch each
    assert not torch.equal(quick[1].models["all"], exact[1].models["all"])


def test_views_of_whole_pixels_need_grey_images(exchanges):
    with pytest.raises(FedkinError, match="'pillow' takes images with one channel"):
        run(CCFCMethod(**TINY, views="pillow"), make_clients()[0])
    assert [name for name, _, _ in exchanges] == ["describe"]
    run(CCFCMethod(**TINY | {"pretrain_rounds": 0}, views="pillow"), make_clients()[0])


def test_a_client_alone_that_misses_the_first_round_begins_with_a_model_of_its_own_all_the_same(exchanges):
    run(CCFCMethod(**TINY, standalone=True), make_clients()[0], failures=[(2, 0), (2, 1)])
    _, asked, _ = exchanges[2]
    assert not torch.equal(initial_model(asked[0]), initial_model(asked[1]))


def test_where_no_client_has_learned_by_views_the_second_phase_begins_with_one_model(exchanges):
    lost = [(exchange, client) for exchange in (2, 3) for client in range(3)]
    run(CCFCMethod(**TINY), make_clients()[0], failures=lost)
    _, asked, _ = exchanges[3]
    assert exchanges[3][0] == "locate"
    assert torch.equal(initial_model(asked[0]), initial_model(asked[2]))


def test_alone_every_client_has_its_own_network_and_clusters(exchanges):
    clients, _ = make_clients()
    method = CCFCMethod(**TINY, standalone=True)
    states, _, _ = run(method, clients)
    result = method.result(states[-1])
    assert result["n_clusters"] == 9
    assert result["clients"] == ["0", "1", "2"]
    assert [method.ready(state) for state in states] == [False] * 4 + [True]
    for i, client in enumerate(clients):
        assert set((client.state["clusters"] // 3).tolist()) == {i}
        for _, asked, _ in exchanges[2:6]:
            assert not torch.equal(asked[i]["model"], asked[(i + 1) % 3]["model"])
        assert torch.equal(exchanges[2][1][i]["model"], exchanges[1][2][i]["model"])
    assert method.predict(result, torch.rand(5, 12)).shape == (5,)
    assert method.embed(result, torch.rand(5, 12)).shape == (5, 18)


@pytest.mark.parametrize("standalone", [False, True])
def test_lost_clients_are_named_and_their_models_wait(standalone, exchanges):
    clients, _ = make_clients()
    # Exchange 1 describes, 2 and 3 are by views, 4 locates, 5 and 6 are by clusters.
    states, records, _ = run(
        CCFCMethod(**TINY, standalone=standalone), clients, failures=[(2, 1), (4, 1), (5, 0), (6, 0)]
    )
    assert [sorted(record.missing) for record in records[:2]] == [[1], [1]]
    assert 0 in {**records[2].missing, **records[3].missing}
    assert records[0].answered == [0, 2]
    name = "0" if standalone else "all"
    assert not torch.equal(states[-1].models[name], states[2].models[name])
    assert all("clusters" in client.state for client in clients)


@pytest.mark.parametrize(("attempts", "own"), [(1, True), (5, False)])
def test_a_lost_client_alone_is_asked_for_centroids_again_or_takes_the_clusters_of_others(attempts, own):
    clients, _ = make_clients()
    failures = [(4 + attempt, 1) for attempt in range(attempts)]
    states, _, _ = run(SCFCMethod(**TINY | {"cluster_rounds": 0}, standalone=True), clients, failures=failures)
    assert ("1" in states[-1].centroids) == own
    assert all(set(client.state) == {"clusters", "confidence"} for client in clients)
    assert ((clients[1].state["clusters"] // 3).unique().tolist() == [1]) == own


def test_colours_of_values_beyond_the_unit_interval_stay_as_they_are():
    clients = [Client(i, torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(i)) * 3) for i in range(2)]
    state = CCFCMethod(**TINY, backbone="perceptron").init(LocalFederation(clients))
    assert not state.unit
    how, x = augmentation_for((3, 8, 8), state.unit), clients[0].x
    seen = how.apply(x, how.draw(x.shape, torch.Generator().manual_seed(0)))
    assert float(seen.min()) < -1
    assert float(seen.max()) > 2
    assert augmentation_for((3, 8, 8)).jitter > 0


def test_without_any_centroids_it_cannot_go_on():
    clients, _ = make_clients()
    failures = [(exchange, client) for exchange in range(4, 24) for client in range(3)]
    with pytest.raises(FedkinError, match="No client has sent centroids in 20 attempts"):
        run(CCFCMethod(**TINY), clients, failures=failures)


def test_no_rounds_at_all_is_an_error():
    with pytest.raises(FedkinError, match="both 0; one round is needed"):
        CCFCMethod(pretrain_rounds=0, cluster_rounds=0).init(LocalFederation(make_clients()[0]))


def test_it_finds_clusters_that_are_there():
    clients, truth = make_clients((60, 60, 60))
    options = TINY | {"pretrain_rounds": 8, "cluster_rounds": 4, "latent": 16, "batch_size": 20, "restarts": 5}
    run(CCFCMethod(**options), clients)
    found = torch.cat([client.state["clusters"] for client in clients])
    assert clustering_accuracy(torch.cat(truth), found) > 0.9


def test_clusters_of_the_largest_cosine_are_counted_through_all_networks():
    method, fed = CCFCMethod(**TINY, standalone=True), LocalFederation(make_clients()[0], seed=3)
    network = Contrastive.of(method.init(fed).network)
    models = [network.initial(torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    x = torch.rand(4, 12)
    target = network.latents(models[1], x)[2:3]
    centroids = [torch.zeros(3, 6), torch.cat([torch.zeros(1, 6), target])]
    result = {"network": network.spec(), "models": models, "centroids": centroids}
    assert int(ccfc.predict_nearest(result, x)[2]) == 4


def test_clusters_of_kin_graph_guide_what_is_learned(monkeypatch):
    learned: list[list[int]] = []
    learn = Contrastive.learn_clusters

    def listen(network: Contrastive, start: Tensor, x: Tensor, clusters: Tensor, *more: Any) -> Any:
        learned.append(clusters.tolist())
        return learn(network, start, x, clusters, *more)

    monkeypatch.setattr(Contrastive, "learn_clusters", listen)
    clients, truth = make_clients((90, 80, 100))
    states, _, _ = run(CCFCMethod(**TINY | {"guide": "kin-graph", "pretrain_rounds": 1}), clients)
    guides = [client.state["kingraph_clusters"] for client in clients]
    assert clustering_accuracy(torch.cat(truth), torch.cat(guides)) > 0.95
    assert sorted(learned) == sorted(2 * [own.tolist() for own in guides])
    assert states[-1].finished
    assert all(int(client.state["clusters"].max()) < 3 for client in clients)


def test_a_client_without_clusters_of_kin_graph_learns_from_the_nearest_centroids():
    client = make_clients()[0][0]
    centroids = normalize(torch.eye(3, 6), dim=1)
    latents = normalize(torch.rand(24, 6, generator=torch.Generator().manual_seed(0)), dim=1)
    nearest = (latents @ centroids.T).argmax(1)
    for guided in (True, False):
        payload = {"guided": guided, "centroids": centroids}
        assert torch.equal(ccfc._clusters(client, latents, payload), nearest)
    client.state["kingraph_clusters"] = torch.zeros(24, dtype=torch.int64)
    assert not ccfc._clusters(client, latents, {"guided": True, "centroids": centroids}).any()


def test_a_client_alone_has_no_clusters_of_all():
    with pytest.raises(FedkinError, match=r"^method\.guide = 'kin-graph' clusters samples of all clients"):
        CCFCMethod(**TINY, guide="kin-graph", standalone=True).init(LocalFederation(make_clients()[0]))


def test_decorrelation_reaches_the_clients(exchanges):
    run(CCFCMethod(**TINY | {"decorrelation": 0.5}), make_clients()[0])
    sent = {
        task: payloads[0]["training"]["decorrelation"] for task, payloads, _ in exchanges if "training" in payloads[0]
    }
    assert sent == {"learn_views": 0.5, "learn_clusters": 0.5}
