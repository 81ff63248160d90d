import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.methods.samples.fedcref.fedcref_tasks import cluster_refine, held_errors


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


def algorithm_2(errors, n_clusters, renumbered=False):
    """The paper's algorithm, or the authors' code, which begins it anew with the samples that are left."""
    samples = range(errors.shape[1])
    labels, selected = most_chosen(errors, range(len(errors)), samples, n_clusters)
    rest = [k for k in samples if k not in labels]
    if renumbered:
        labels |= most_chosen(errors, selected, rest, len(selected))[0]
    else:
        labels |= {k: min(range(len(selected)), key=lambda p: errors[selected[p], k]) for k in rest}
    return [labels[k] for k in samples], selected


@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 4), st.booleans(), st.integers(0, 10**6))
def test_refinement_is_the_papers_loop_or_that_of_its_code(models, samples, n_clusters, renumbered, seed):
    errors = np.random.default_rng(seed).random((models, samples)).astype(np.float32)
    labels, selected = cluster_refine(torch.from_numpy(errors), n_clusters, renumbered=renumbered)
    expected, order = algorithm_2(errors, n_clusters, renumbered)
    assert [selected[label] for label in labels] == [order[label] for label in expected]
    assert set(selected) <= set(order)


@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 4), st.none() | st.floats(0, 1), st.integers(0, 10**6))
def test_no_refined_cluster_is_empty_even_where_models_tie(models, samples, n_clusters, min_fraction, seed):
    errors = torch.from_numpy(np.random.default_rng(seed).integers(0, 3, (models, samples))).float()
    labels, selected = cluster_refine(errors, n_clusters, min_fraction)
    assert labels.unique().tolist() == list(range(len(selected)))


def test_a_sample_that_is_left_goes_to_its_best_model_or_to_one_of_the_same_rank():
    """Three samples choose model 0, and two model 1; the last one chooses model 2, which is not selected, then 1."""
    errors = torch.full((3, 6), 0.9)
    errors[0, :3], errors[1, 3:5], errors[1, 5], errors[2, 5] = 0.1, 0.1, 0.5, 0.1
    assert cluster_refine(errors, 2)[0].tolist() == [0, 0, 0, 1, 1, 1]
    assert cluster_refine(errors, 2, renumbered=True)[0].tolist() == [0, 0, 0, 1, 1, 0]


def test_a_held_sample_moves_only_for_a_much_lower_error():
    errors, labels = torch.tensor([[1.0, 1.0, 1.0], [0.8, 0.6, 2.0]]), torch.tensor([0, 0, 0])
    assert held_errors(errors, labels, [0], 0.3).argmin(0).tolist() == [0, 1, 0]
    assert torch.equal(held_errors(errors, labels, [0], 0.0), errors)
    assert held_errors(errors, torch.tensor([0, 1, 1]), [1, 0], 1.0).argmin(0).tolist() == [1, 0, 0]
