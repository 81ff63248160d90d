from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score

from fedkin.clustering.metrics import (
    accuracy,
    adjusted_mutual_information,
    adjusted_rand,
    clustering_accuracy,
    cohen_kappa,
    completeness,
    homogeneity,
    macro_f1,
    match_labels,
    normalized_mutual_information,
    purity,
)
from fedkin.core.errors import FedkinError

AGREEMENT = [clustering_accuracy, adjusted_rand, normalized_mutual_information, adjusted_mutual_information]
PARTS = [homogeneity, completeness, purity]
SCORES = [*AGREEMENT, *PARTS, cohen_kappa, accuracy, macro_f1]
partitions = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)


def split(pairs):
    return np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])


@given(partitions)
def test_accuracy_is_the_best_of_all_namings(pairs):
    truth, labels = split(pairs)
    best = max(np.mean(np.array(naming)[labels] == truth) for naming in permutations(range(4)))
    assert clustering_accuracy(truth, labels) == pytest.approx(best)


@given(partitions, st.permutations(range(4)), st.randoms(use_true_random=False))
@pytest.mark.parametrize("score", [*AGREEMENT, *PARTS])
def test_scores_ignore_names_and_order(score, pairs, names, random):
    truth, labels = split(pairs)
    order = random.sample(range(len(truth)), len(truth))
    renamed = 10 * np.array(names)[labels] - 7
    assert score(truth, labels) == pytest.approx(score(truth[order], renamed[order]), abs=1e-12)


@given(partitions)
def test_matching_reaches_the_accuracy_and_names_every_cluster(pairs):
    truth, labels = split(pairs)
    names = match_labels(truth, labels)
    named = np.array([names[cluster] for cluster in labels])
    assert list(names) == sorted(set(labels.tolist()))
    assert set(names.values()) <= set(truth.tolist())
    assert np.mean(named == truth) >= clustering_accuracy(truth, labels) - 1e-12
    if len(names) <= len(set(truth.tolist())):
        assert len(set(names.values())) == len(names)


@given(partitions)
def test_kappa_is_sklearns_with_clusters_without_a_class_wrong(pairs):
    truth, labels = split(pairs)
    classes, clusters = np.unique(truth), np.unique(labels)
    table = np.array([[np.sum((truth == c) & (labels == k)) for k in clusters] for c in classes])
    rows, columns = linear_sum_assignment(-table)
    names = dict(zip(clusters[columns], classes[rows], strict=True))
    named = np.array([names.get(cluster, 1000 + cluster) for cluster in labels])
    is_one = len(set(truth) | set(named)) == 1  # where scikit-learn's is not a number
    assert cohen_kappa(truth, labels) == pytest.approx(1.0 if is_one else cohen_kappa_score(truth, named))


@given(partitions)
def test_accuracy_and_f1_are_sklearns(pairs):
    truth, labels = split(pairs)
    assert accuracy(truth, labels) == pytest.approx(accuracy_score(truth, labels))
    assert macro_f1(truth, labels) == pytest.approx(f1_score(truth, labels, average="macro"))


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    ("truth", "labels", "message"),
    [
        ([0, 1], [0], "2 and 1 samples"),
        ([0, 1], [0.5, 1], "float64"),
    ],
)
def test_what_cannot_be_compared_is_refused(score, truth, labels, message):
    with pytest.raises(FedkinError, match=message):
        score(truth, labels)
