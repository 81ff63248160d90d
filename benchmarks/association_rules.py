"""How well association rules distinguish matching local clusters from others, before any refinement.

``python benchmarks/association_rules.py digits:50 mnist:500 --dirtiness 0 0.3 0.5 --seeds 0 1 2``

For every data set (name:samples per class), dirtiness and seed, clients train their models once and are asked once. One
line each for the held-out rule and for the paper's: mean statistic of pairs of one class and of pairs of different
classes; the range of cuts (or thresholds) that give exactly the true classes; the cut chosen and its adjusted Rand
index between clusters and classes of clusters; and the best index that any cut could give.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.metrics import adjusted_rand_score

from fedkin.clustering.metrics import match_labels
from fedkin.data.scenarios.label_skew import LabelSkew
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.fedcref import association
from fedkin.methods.samples.fedcref.association import AssociationGraph
from fedkin.methods.samples.fedcref.fedcref import FedCRefMethod

CUTS = np.round(np.arange(0.02, 1.0, 0.01), 2)


def main() -> None:
    """Print one line per data set, dirtiness, seed and rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", help="name:samples per class, such as digits:50")
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--dirtiness", type=float, nargs="+", default=[0.0, 0.3, 0.5])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    print("| data | dirt | seed | rule | same class | other class | right cuts | cut | ARI | best ARI |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for source in options.data:
        name, samples = source.rsplit(":", 1)
        for dirtiness in options.dirtiness:
            for seed in options.seeds:
                scenario = LabelSkew(
                    data=name,
                    clients=options.sites,
                    samples_per_class=int(samples),
                    initial="dirty",
                    dirtiness=dirtiness,
                )
                for rule in ("held-out", "paper"):
                    print(f"| {name} S={samples} | {dirtiness} | {seed} | {rule} | {_line(scenario, seed, rule)} |")


def _line(scenario: LabelSkew, seed: int, rule: str) -> str:
    population = scenario.build(seed)
    fed = LocalFederation(population.clients, seed)
    method = FedCRefMethod(n_clusters="given", associations=rule, rounds=1, first_epochs=1, max_iterations=1)  # type: ignore[arg-type]
    state, _ = method.step(fed, method.init(fed))
    assert population.truth is not None
    matched = [match_labels(population.truth[c.id], c.state["given"]) for c in population.clients]
    classes = np.array([matched[site][cluster] for site, cluster in state.nodes])

    def graph(cut: float | None) -> AssociationGraph:
        if rule == "held-out":
            return association.by_held_out_rule(state.nodes, state.statistics, cut)
        return association.by_threshold(state.nodes, state.statistics, method.threshold if cut is None else cut)

    scores = {cut: _score(graph(float(cut)), classes) for cut in CUTS}
    right = [cut for cut, score in scores.items() if score == 1.0]
    chosen = graph(None)
    statistics = state.statistics.numpy()
    both = np.maximum(statistics, statistics.T) if rule == "paper" else (statistics + statistics.T) / 2
    sites = np.array([site for site, _ in state.nodes])
    apart = ~np.equal.outer(sites, sites)
    same = np.equal.outer(classes, classes)
    return " | ".join(
        [
            f"{both[apart & same].mean():.2f}",
            f"{both[apart & ~same].mean():.2f}",
            f"{min(right):.2f}–{max(right):.2f}" if right else "none",
            f"{method.threshold if chosen.cut is None else chosen.cut:.2f}",
            f"{_score(chosen, classes):.3f}",
            f"{max(scores.values()):.3f}",
        ]
    )


def _score(graph: AssociationGraph, classes: np.ndarray) -> float:
    clusters = graph.clusters()
    found = [clusters[site][cluster] for site, cluster in graph.nodes]
    return float(adjusted_rand_score(classes, found))


if __name__ == "__main__":
    main()
