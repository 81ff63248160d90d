"""Check whether a single column of a table explains its clusters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.tree import DecisionTreeClassifier

from fedkin.clustering.metrics import Labels
from fedkin.studies.compare.prepared_samples import Block

EXPLAINED, NOT_BY_OTHERS = 0.8, 0.5
"""Adjusted mutual information of clusters with those predicted from one column, at least, and from all others, at most,
where that column explains them."""
_FOLDS, _FEWEST = 3, 30

Numbers = NDArray[np.float64]


def explaining_column(x: Numbers, blocks: Sequence[Block], labels: Labels) -> str | None:
    """Return the column that alone predicts the clusters while all others together do not; ``None`` without one.

    Clusters are predicted by decision trees, and on samples that these were not fitted on. `blocks` are the columns of
    `x` ``(m, width)`` by original column; with a single one the result is ``None``. `labels` are int64 ``(m,)``, -1 for
    none; clusters with fewer than three samples are left out.
    """
    values, counts = np.unique(labels[labels >= 0], return_counts=True)
    known = np.isin(labels, values[counts >= _FOLDS])
    x, labels = x[known], labels[known]
    if len(blocks) < 2 or len(labels) < _FEWEST or len(np.unique(labels)) < 2:
        return None
    tree = DecisionTreeClassifier(max_leaf_nodes=max(8, 4 * len(values)), random_state=0)
    found = {name: _predictable(tree, x[:, start:end], labels) for name, start, end in blocks}
    name, start, end = max(blocks, key=lambda block: found[block[0]])
    if found[name] < EXPLAINED:
        return None
    trees = ExtraTreesClassifier(50, min_samples_leaf=3, random_state=0)
    others = _predictable(trees, np.delete(x, np.s_[start:end], axis=1), labels)
    return name if others <= NOT_BY_OTHERS else None


def _predictable(model: DecisionTreeClassifier | ExtraTreesClassifier, x: Numbers, labels: Labels) -> float:
    """Return the cross-validated adjusted mutual information of clusters and their predictions."""
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
    return float(adjusted_mutual_info_score(labels, cross_val_predict(model, x, labels, cv=folds)))
