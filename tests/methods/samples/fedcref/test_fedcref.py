import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core import Federation
from fedkin.data.scenarios import LabelSkew
from fedkin.engines.local import LocalFederation
from fedkin.experiment.evaluation import evaluate_associations, with_oracle
from fedkin.methods.samples.fedcref.association import (
    by_threshold,
    match_by_linkage,
)
from fedkin.methods.samples.fedcref.fedcref import FedCRefMethod
from fedkin.methods.samples.fedcref.tasks import cluster_refine

QUICK = FedCRefMethod(rounds=2, min_steps=60, max_iterations=3)


SWIFT = FedCRefMethod(rounds=1, min_steps=8, local_epochs=1, max_iterations=3)
"""Its models fit badly; for what must hold whatever they are like."""


def population(clients=5, dirtiness=0.2, **options):
    return LabelSkew(clients=clients, samples_per_class=24, dirtiness=dirtiness, **options).build(0)


def run(method, people, steps=99, **engine):
    fed = LocalFederation(people.clients, seed=0, **engine)
    method = with_oracle(method, people.truth.__getitem__, fed)
    state, records = method.init(fed), []
    while not state.finished and state.steps < steps:
        state, record = method.step(fed, state)
        records.append(record)
    return fed, state, records


def test_clusters_are_found_across_clients():
    people = LabelSkew(clients=6, samples_per_class=60, dirtiness=0.3).build(0)
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


def test_stable_clients_train_once_more_and_rest(monkeypatch):
    asked, ask = [], Federation.ask

    def listen(fed, task, payloads, shapes=None):
        asked.append((task.name.rpartition(".")[2], sorted(payloads)))
        return ask(fed, task, payloads, shapes)

    monkeypatch.setattr(Federation, "ask", listen)
    fed = LocalFederation(population().clients, seed=0)
    method = dataclasses.replace(SWIFT, stability=0.7, max_iterations=4)
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


def test_new_samples_go_to_the_cluster_that_knows_them():
    people = population(clients=4, dirtiness=None)
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


NODES = [[0, 0], [0, 1], [1, 0], [2, 0], [2, 1]]


def test_the_papers_rule_needs_both_directions_and_joins_components():
    statistics = torch.ones(5, 5)
    for a, b in ((0, 2), (2, 0), (2, 3), (3, 2), (1, 4), (0, 1), (1, 0)):
        statistics[a, b] = 0.2
    graph = by_threshold(NODES, statistics, 0.2)
    assert graph.edges == [[0, 2], [2, 3]]
    assert graph.communities == [[0, 2, 3]]
    assert graph.unmatched == [1, 4]
    assert graph.clusters() == {0: [0, 1], 1: [0], 2: [0, 2]}


def planted(kinds, rng, same=0.55, other=0.95, noise=0.03):
    kinds = np.asarray(kinds)
    losses = np.where(np.equal.outer(kinds, kinds), same, other) + rng.normal(0, noise, (len(kinds),) * 2)
    return losses.clip(0, 1)


def as_partition(clusters):
    return {frozenset(members) for members in clusters}


@given(st.integers(0, 100), st.permutations(range(12)))
def test_planted_clusters_are_found_in_any_order(seed, order):
    kinds, clients = np.array([0, 1, 2] * 4), np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    losses = planted(kinds, np.random.default_rng(seed))
    clusters, cut = match_by_linkage(losses, clients.tolist())
    assert as_partition(clusters) == {frozenset(np.flatnonzero(kinds == kind)) for kind in range(3)}
    losses, clients = losses[np.ix_(order, order)], clients[order]
    shuffled, other_cut = match_by_linkage(losses, clients.tolist())
    assert as_partition([[order[a] for a in members] for members in shuffled]) == as_partition(clusters)
    assert cut == pytest.approx(other_cut)


def most_chosen(errors, models, rest, n_clusters):
    """The paper's loop over models, line by line: the models it takes, and the number of each sample that one takes."""
    models, rest, labels, selected = list(models), list(rest), {}, []
    for _ in range(n_clusters):
        if not models or not rest:
            break
        best = {k: min(models, key=lambda m, k=k: errors[m, k]) for k in rest}
        most = max(models, key=lambda m: (sum(choice == m for choice in best.values()), -models.index(m)))
        for k in [k for k in rest if best[k] == most]:
            labels[k] = len(selected)
            rest.remove(k)
        selected.append(most)
        models.remove(most)
    return labels, selected


def algorithm_2(errors, n_clusters):
    samples = range(errors.shape[1])
    labels, selected = most_chosen(errors, range(len(errors)), samples, n_clusters)
    rest = [k for k in samples if k not in labels]
    labels |= {k: min(range(len(selected)), key=lambda p: errors[selected[p], k]) for k in rest}
    return [labels[k] for k in samples], selected


@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 4), st.integers(0, 10**6))
def test_refinement_is_the_papers_loop(models, samples, n_clusters, seed):
    errors = np.random.default_rng(seed).random((models, samples)).astype(np.float32)
    labels, selected = cluster_refine(torch.from_numpy(errors), n_clusters)
    expected, order = algorithm_2(errors, n_clusters)
    assert [selected[label] for label in labels] == [order[label] for label in expected]
    assert set(selected) <= set(order)
