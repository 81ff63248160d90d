"""Whether kin-graph finds the same clusters of the same rows at other clients, by the stability that it records.

    FEDKIN_ARFF=... FEDKIN_DATA=... python benchmarks/kin_graph_agreement.py [--divisions 3] [--tables wine heart ...]

Each table's rows are divided at random over three clients, several times. Prints, by table, the mean adjusted Rand
index between the clusters of each two divisions, the mean stability, and the numbers of clusters; at the end the mean
index by stability. Tables are those of `table_sources`, by default UCI's of ``FEDKIN_ARFF``; those in up to three
dimensions or with few micro-clusters, where stability is not what decides, are left out.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import combinations, pairwise

import numpy as np
from sklearn.metrics import adjusted_rand_score

import fedkin
from arff_tables import arff_sources
from fedkin.clustering.graph.community_joining import FEW_DIMENSIONS
from fedkin.clustering.graph.few_nodes import FEW_IN_SPACE
from table_sources import sources, table

CLIENTS = 3
EDGES = (0.0, 0.7, 0.8, 0.85, 0.9, 1.01)


def main() -> None:
    """Print a row per table, and one per range of stability."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(sources()), metavar="TABLE", default=list(arff_sources()))
    parser.add_argument("--divisions", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| table | ARI between divisions | stability | clusters |\n|---|---|---|---|")
    known = []
    for name in given.tables:
        line = agreement(name, given.divisions)
        if line is not None:
            index, stability, numbers = line
            known.append((stability, index))
            print(f"| {name} | {index:.2f} | {stability:.2f} | {', '.join(map(str, numbers))} |", flush=True)
    print("\n| stability | tables | ARI between divisions, mean | quartiles |\n|---|---|---|---|")
    for low, high in pairwise(EDGES):
        own = [index for stability, index in known if low <= stability < high]
        if own:
            first, third = np.quantile(own, [0.25, 0.75])
            print(f"| {low:g} to {min(high, 1):g} | {len(own)} | {np.mean(own):.2f} | {first:.2f} to {third:.2f} |")


def agreement(name: str, divisions: int) -> tuple[float, float, list[int]] | None:
    """Mean index between divisions, mean stability and numbers of clusters; None if stability does not decide."""
    frame, _ = table(name, "plain", 0)
    labels, stabilities, numbers = [], [], []
    for seed in range(divisions):
        parts = np.array_split(np.random.default_rng(seed).permutation(len(frame)), CLIENTS)
        try:
            model = fedkin.KinGraph(random_state=0).fit([frame.iloc[part].reset_index(drop=True) for part in parts])
        except fedkin.FedkinError:
            return None
        record = model.records_[-1]
        if model.result_["centroids"].shape[1] <= FEW_DIMENSIONS or record["nodes"] <= FEW_IN_SPACE:
            return None
        own = np.empty(len(frame), dtype=np.int64)
        own[np.concatenate(parts)] = np.concatenate(model.labels_)
        labels.append(own)
        stabilities.append(record["stability"])
        numbers.append(model.n_clusters_)
    index = float(np.mean([adjusted_rand_score(a, b) for a, b in combinations(labels, 2)]))
    return index, float(np.mean(stabilities)), numbers


if __name__ == "__main__":
    main()
