import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import Federation, FedkinError
from fedkin.core.payload import pack
from fedkin.data.scenarios.label_skew import LabelSkew
from fedkin.engines.local import LocalFederation
from fedkin.experiment.evaluation import evaluate_associations, with_oracle
from fedkin.methods.samples.fedcref.fedcref import FedCRefMethod
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod

QUICK = FedCRefMethod(rounds=2, min_steps=60, max_iterations=3)
SWIFT = FedCRefMethod(rounds=1, min_steps=8, local_epochs=1, max_iterations=3)
"""Its models fit badly; for what must hold whatever they are like."""


def population(initial="dirty", clients=5, **options):
    return LabelSkew(clients=clients, samples_per_class=24, initial=initial, dirtiness=0.2, **options).build(0)


def run(method, people, steps=99, **engine):
    fed = LocalFederation(people.clients, seed=0, **engine)
    method = with_oracle(method, people.truth.__getitem__, fed)
    state, records = method.init(fed), []
    while not state.finished and state.steps < steps:
        state, record = method.step(fed, state)
        records.append(record)
    return fed, state, records


def test_clusters_are_found_across_clients():
    people = LabelSkew(clients=6, samples_per_class=60, initial="dirty").build(0)
    fed, state, records = run(FedCRefMethod(rounds=3, min_steps=80, max_iterations=2), people)
    metrics = evaluate_associations(QUICK, people, fed, state)
    assert metrics["accuracy"] > 0.93
    assert metrics["false_matches"] == 0.0
    assert metrics["ari"] > 0.85
    assert records[0].values["communities"] == metrics["target"]
    for client in people.clients:
        assert torch.equal(
            client.state["clusters"], torch.tensor(state.clusters[str(client.id)])[client.state["labels"]]
        )


def exchanges(chunk, method, monkeypatch):
    """Every exchange of a short run: task, and replies by client."""
    seen = []
    ask = Federation.ask

    def listen(fed, task, payloads, shapes=None):
        replies = ask(fed, task, payloads, shapes)
        seen.append((task.name, {i: pack(reply) for i, reply in replies.items()}))
        return replies

    monkeypatch.setattr(Federation, "ask", listen)
    _, state, _ = run(method, population("method"), steps=2, chunk=chunk)
    monkeypatch.undo()
    return seen, state


@pytest.mark.parametrize("rule", ["held-out", "paper"])
def test_for_every_task_one_client_at_a_time_is_all_at_once(rule, monkeypatch):
    method = dataclasses.replace(SWIFT, associations=rule, threshold=0.9, initial="kmeans", max_iterations=2)
    alone, first = exchanges(1, method, monkeypatch)
    together, second = exchanges(99, method, monkeypatch)
    assert {name.rpartition(".")[2] for name, _ in alone} == {
        "describe", "start", "train_clusters", "score", "train_community", "refine", "finish",
    }  # fmt: skip
    assert [name for name, _ in alone] == [name for name, _ in together]
    for (_, one), (_, all_) in zip(alone, together, strict=True):
        assert one.keys() == all_.keys()
        for i in one:
            assert one[i][1] == all_[i][1]
            for name, tensor in one[i][0].items():
                torch.testing.assert_close(tensor, all_[i][0][name], rtol=0, atol=1e-5)
    assert first.clusters == second.clusters


def test_neither_samples_nor_labels_leave_a_client(monkeypatch):
    seen, _ = exchanges(2, SWIFT, monkeypatch)
    sizes = {len(client) for client in population("method").clients}
    for _, replies in seen:
        for tensors, _ in replies.values():
            assert not any(set(tensor.shape) & sizes for tensor in tensors.values())


def test_stable_clients_train_once_more_and_rest(monkeypatch):
    asked, ask = [], Federation.ask

    def listen(fed, task, payloads, shapes=None):
        asked.append((task.name.rpartition(".")[2], sorted(payloads)))
        return ask(fed, task, payloads, shapes)

    monkeypatch.setattr(Federation, "ask", listen)
    fed = LocalFederation(population().clients, seed=0)
    method = dataclasses.replace(SWIFT, stability=0.7, max_iterations=4, patience=9)
    state, rested = method.init(fed), []
    while not state.finished:
        before, asked[:] = state, []
        labels = [client.state["labels"].clone() for client in fed.clients.values()]
        state, record = method.step(fed, state)
        active = [i for i in range(5) if i not in state.frozen]
        assert dict(asked)["train_clusters"] == [i for i in range(5) if i not in before.frozen]
        assert dict(asked)["refine"] == active
        assert record.values["active"] == len(active)
        assert state.frozen == before.stable
        for i in state.frozen:
            assert torch.equal(fed.clients[i].state["labels"], labels[i])
            assert i not in before.frozen or torch.equal(state.models[str(i)], before.models[str(i)])
        rested.append(len(before.frozen))
    assert 0 < rested[-1] < 5  # some have rested, and others have gone on beside them


def test_the_loop_as_printed_goes_on_while_clients_are_active_or_the_graph_varies():
    at_rest = dataclasses.replace(SWIFT, stability=0.0, patience=2, max_iterations=9, tolerance=9.0)
    ends = {ending: run(dataclasses.replace(at_rest, ending=ending), population()) for ending in ("both", "graph")}
    for fed, state, records in ends.values():
        assert state.steps == 3
        assert [record.values["active"] for record in records] == [5, 0, 0]
        assert all("clusters" in client.state for client in fed.clients.values())
    restless = dataclasses.replace(at_rest, stability=1.0, max_iterations=5)
    assert run(dataclasses.replace(restless, ending="both"), population())[1].steps == 5
    assert run(dataclasses.replace(restless, ending="graph"), population())[1].steps == 3


@settings(max_examples=4)
@given(st.integers(0, 100))
def test_it_survives_any_loss(seed):
    people = population()
    fed = LocalFederation(people.clients, seed=seed, drop_rate=0.3)
    state = SWIFT.init(fed)
    while not state.finished:
        state, record = SWIFT.step(fed, state)
        assert set(record.missing) | set(record.answered) == set(fed.ids)
    assert SWIFT.result(state)["models"].isfinite().all()


def test_new_samples_go_to_the_cluster_that_knows_them():
    people = population("true", clients=4)
    _, state, _ = run(dataclasses.replace(QUICK, rounds=10), people)
    result = QUICK.result(state)
    for client in people.clients:
        clusters = FedCRefMethod.predict(result, client.x)
        assert (clusters == client.state["clusters"]).float().mean() > 0.6
        sure = client.state["confidence"]
        assert sure.shape == clusters.shape
        assert 0 <= float(sure.min()) < float(sure.max()) <= 1
        assert FedCRefMethod.confidence(result, client.x).shape == clusters.shape
        assert "errors" not in client.state
    assert result["n_clusters"] == len(result["communities"]) == len(result["models"])


def test_kin_graph_may_make_the_first_clusters():
    people = LabelSkew(clients=6, samples_per_class=60).build(0)  # it takes more samples than the other tests have
    fed, state, records = run(
        dataclasses.replace(QUICK, initial="kin-graph", first=KinGraphMethod, max_iterations=1), people
    )
    metrics = evaluate_associations(QUICK, people, fed, state)
    assert metrics["accuracy"] > 0.85
    assert records[0].values["local_clusters"] <= sum(
        len(client.state["first_clusters"].unique()) for client in people.clients
    )
    assert all(int(client.state["labels"].min()) == 0 for client in people.clients)


def test_first_clusters_are_those_of_a_method_that_is_given():
    with pytest.raises(FedkinError, match="give its class as 'first'"):
        dataclasses.replace(QUICK, initial="kin-graph").init(LocalFederation(population("method", clients=3).clients))


def test_kin_graph_may_associate_clusters():
    people = population("true", clients=4)
    method = dataclasses.replace(
        QUICK, initial="auto", associations="kin-graph", first=KinGraphMethod, max_iterations=1
    )
    _, state, _ = run(method, people)
    own = [client.state["first_clusters"] for client in people.clients]
    most = {
        (client.id, cluster): int(kin[client.state["previous"] == cluster].mode().values)
        for client, kin in zip(people.clients, own, strict=True)
        for cluster in range(int(client.state["previous"].max()) + 1)
    }
    nodes = [tuple(node) for node in state.nodes]
    assert state.edges
    assert all(most[nodes[a]] == most[nodes[b]] for a, b in state.edges)


def test_models_may_start_from_those_chosen_last():
    method = dataclasses.replace(SWIFT, continuity=True, max_iterations=2)
    people = population()
    _, state, _ = run(method, people)
    for client in people.clients:
        if client.id not in state.frozen:
            assert len(client.state["start"]) == client.state["labels"].max() + 1
    fresh = run(dataclasses.replace(method, continuity=False), population())[1]
    assert not torch.equal(state.cluster_models, fresh.cluster_models)
