import dataclasses
from typing import Any

import numpy as np
import pytest

from fedkin.studies.compare.candidates import Candidate, Selection
from fedkin.studies.compare.judging import CandidateScore
from fedkin.studies.compare.ranking import Choice, best_numbers, chosen, chosen_by_truth, truth_of

SAMPLES = Selection("samples", ("kfed", "kmeans", "kin-graph", "ffcm", "fedcref", "sda-fc"))
CLIENTS = Selection("clients", ("local", "fedavg", "ocfl", "embedding", "ifca"))
KFED, KMEANS = Candidate("kfed", 3), Candidate("kmeans", 3)
KIN_GRAPH, FFCM = Candidate("kin-graph"), Candidate("ffcm", 3)


def of_samples(cohesion: float, stability: float | None = 1.0, moved: float = 1000, **more: Any) -> CandidateScore:
    measures = {"cohesion": cohesion} | ({} if stability is None else {"stability": stability})
    labels = (np.array(more.get("labels", [0, 0, 1, 1, 2, 2])),)
    spread = more.get("spread")
    clusters, found = more.get("clusters", (3, 3)), more.get("found", False)
    return CandidateScore(measures, more.get("truth", {}), (), clusters, moved, 1.0, labels, spread, found)


def of_clients(scores: list[float | None], stability: float = 1.0, moved: float = 1000) -> CandidateScore:
    known = [score for score in scores if score is not None]
    measures = {"accuracy": sum(known) / len(known), "stability": stability}
    return CandidateScore(measures, {}, tuple(scores), (2, 2), moved, 1.0, (np.array([0, 1]),))


def test_the_most_cohesive_is_taken() -> None:
    verdicts = {KFED: of_samples(0.6), KIN_GRAPH: of_samples(0.7, 0.5, 9000), FFCM: of_samples(0.65)}
    assert chosen(SAMPLES, verdicts) == Choice(KIN_GRAPH, 0, 0, pytest.approx(0.05))


def test_among_equals_the_stable_are_taken_and_among_these_the_cheap() -> None:
    verdicts = {
        KFED: of_samples(0.69, 0.80, 10),
        KIN_GRAPH: of_samples(0.70, 0.97, 500),
        FFCM: of_samples(0.69, 0.99, 900),
        Candidate("fedcref"): of_samples(0.5, 1.0, 1),
    }
    assert chosen(SAMPLES, verdicts) == Choice(KIN_GRAPH, 2, 1, pytest.approx(0.2))


def test_a_number_that_was_found_counts_half_as_much_again() -> None:
    curved, pieces = of_samples(0.41, found=True), of_samples(0.6, labels=[0, 1, 2, 3, 4, 5])
    four, given = Candidate("kin-graph", 4), of_samples(0.6, labels=[0, 1, 2, 3, 4, 5])
    assert best_numbers("samples", {KIN_GRAPH: curved, four: given}) == {"kin-graph": KIN_GRAPH}
    assert chosen(SAMPLES, {KIN_GRAPH: curved, KFED: pieces}) == Choice(KIN_GRAPH, 0, 0, None)
    less = of_samples(0.39, found=True)
    assert best_numbers("samples", {KIN_GRAPH: less, four: given}) == {"kin-graph": four}
    assert chosen(SAMPLES, {KIN_GRAPH: less, KFED: pieces}) == Choice(KFED, 0, 0, pytest.approx(0.21))


def test_the_same_clusters_with_a_given_number_are_no_worse() -> None:
    verdicts = {KIN_GRAPH: of_samples(0.7, found=True), KFED: of_samples(0.69, 1.0, 10), FFCM: of_samples(0.67, 1.0, 1)}
    assert chosen(SAMPLES, verdicts) == Choice(KFED, 1, 1, pytest.approx(0.02))


def test_who_forms_other_clusters_is_no_equal() -> None:
    """However stable it is, and however near its cohesion."""
    verdicts = {KIN_GRAPH: of_samples(0.70, 0.7, 500), FFCM: of_samples(0.695, 1.0, 10, labels=[0, 1, 0, 1, 0, 1])}
    assert chosen(SAMPLES, verdicts) == Choice(KIN_GRAPH, 0, 0, pytest.approx(0.005))


def test_those_within_the_standard_errors_are_undecided() -> None:
    verdicts = {
        KFED: of_samples(0.60, spread=0.02),
        KIN_GRAPH: of_samples(0.66, spread=0.01),
        FFCM: of_samples(0.64, spread=0.03),
        Candidate("fedcref"): of_samples(0.61, spread=0.03),
        KMEANS: of_samples(0.66, spread=0.03),
    }
    taken = chosen(SAMPLES, verdicts)
    assert taken is not None
    assert taken.candidate in (KIN_GRAPH, FFCM)
    assert taken.undecided == ((FFCM,) if taken.candidate == KIN_GRAPH else (KIN_GRAPH, Candidate("fedcref"), KFED))
    assert chosen(SAMPLES, {KIN_GRAPH: of_samples(0.66), KFED: of_samples(0.65)}).undecided == ()  # type: ignore[union-attr]


def test_a_single_run_is_less_stable_than_any() -> None:
    verdicts = {KFED: of_samples(0.70, None, 10), KIN_GRAPH: of_samples(0.69, 0.2, 500)}
    assert chosen(SAMPLES, verdicts) == Choice(KIN_GRAPH, 1, 0, None)


def test_where_all_have_run_once_the_score_decides() -> None:
    verdicts = {KFED: of_samples(0.69, None, 10), KIN_GRAPH: of_samples(0.70, None, 500)}
    assert chosen(SAMPLES, verdicts) == Choice(KIN_GRAPH, 1, 1, None)


def test_centralised_baselines_and_copies_are_never_taken() -> None:
    best = {KMEANS: of_samples(0.9), Candidate("sda-fc", 3): of_samples(0.95)}
    assert chosen(SAMPLES, best) is None
    taken = chosen(SAMPLES, best | {KFED: of_samples(0.1)})
    assert taken is not None
    assert taken.candidate == KFED


def test_one_cluster_of_all_samples_is_no_answer() -> None:
    assert chosen(SAMPLES, {KIN_GRAPH: of_samples(0.0, clusters=(1, 1))}) is None
    taken = chosen(SAMPLES, {KIN_GRAPH: of_samples(0.0, clusters=(1, 1)), KFED: of_samples(-0.1)})
    assert taken is not None
    assert taken.candidate == KFED


def test_clients_are_served_best() -> None:
    ocfl, local = Candidate("ocfl"), Candidate("local")
    verdicts = {ocfl: of_clients([0.9, 0.8, 0.95, 0.9]), local: of_clients([0.7, 0.6, 0.75, 0.7])}
    choice = chosen(CLIENTS, verdicts)
    assert choice == Choice(ocfl, 0, 0, pytest.approx(0.2))


def test_within_the_error_of_the_difference_methods_that_cluster_are_preferred() -> None:
    ocfl, local, ifca = Candidate("ocfl"), Candidate("local"), Candidate("ifca", 2)
    verdicts = {
        local: of_clients([0.90, 0.80, 0.95, None]),
        ocfl: of_clients([0.95, 0.74, 0.95, 0.5]),
        ifca: of_clients([0.5, 0.5, 0.5, 0.5], moved=1),
    }
    choice = chosen(CLIENTS, verdicts)
    assert choice is not None
    assert choice.candidate == ocfl
    assert choice.rivals == 0
    worse = verdicts | {ocfl: of_clients([0.80, 0.71, 0.85, 0.5])}
    choice = chosen(CLIENTS, worse)
    assert choice is not None
    assert choice.candidate == local


def test_clients_as_well_served_take_the_fewer_clusters() -> None:
    ocfl, ifca = Candidate("ocfl"), Candidate("ifca", 3)
    finer = dataclasses.replace(of_clients([0.9, 0.8, 0.95, 0.9], moved=1), clusters=(4, 4))
    choice = chosen(CLIENTS, {ocfl: of_clients([0.9, 0.8, 0.9, 0.91], moved=9000), ifca: finer})
    assert choice == Choice(ocfl, 1, 1, None)


def test_a_method_takes_the_number_that_scores_best() -> None:
    verdicts = {
        Candidate("kfed", 2): of_samples(0.5),
        Candidate("kfed", 4): of_samples(0.7),
        Candidate("kfed", 8): of_samples(0.7),
        KIN_GRAPH: of_samples(0.6),
    }
    assert best_numbers("samples", verdicts) == {"kfed": Candidate("kfed", 4), "kin-graph": KIN_GRAPH}


def test_the_truth_takes_the_number_that_agrees_best_with_it() -> None:
    verdicts = {
        Candidate("kfed", 2): of_samples(0.9, truth={"ari": 0.4}),
        Candidate("kfed", 4): of_samples(0.7, truth={"ari": 0.8}),
        KIN_GRAPH: of_samples(0.6),
    }
    assert best_numbers("samples", verdicts, truth_of) == {"kfed": Candidate("kfed", 4), "kin-graph": KIN_GRAPH}


def test_the_truth_chooses_where_it_is_asked() -> None:
    verdicts = {
        KMEANS: of_samples(0.9, truth={"ari": 1.0}),
        KFED: of_samples(0.8, truth={"ari": 0.4}),
        KIN_GRAPH: of_samples(0.2, truth={"ari": 0.6}),
    }
    assert chosen_by_truth(SAMPLES, verdicts) == Choice(KIN_GRAPH)
    assert chosen_by_truth(SAMPLES, {KFED: of_samples(0.8)}) is None


def test_the_lead_is_over_all_in_the_table():
    """Also over those that cannot be recommended."""
    verdicts = {KFED: of_samples(0.6), KIN_GRAPH: of_samples(0.5), KMEANS: of_samples(0.57)}
    taken = chosen(SAMPLES, verdicts)
    assert taken is not None
    assert (taken.candidate, taken.ahead) == (KFED, pytest.approx(0.03))
    taken = chosen(SAMPLES, verdicts | {KMEANS: of_samples(0.61)})
    assert taken is not None
    assert taken.ahead is None
    one_cluster = of_samples(1.0, clusters=(1, 1))
    assert chosen(SAMPLES, {KFED: of_samples(0.6), FFCM: one_cluster}) == Choice(KFED)


def test_a_baseline_that_is_as_good_is_told_and_counts_for_the_lead():
    names = [Candidate(name) for name in ("clove", "local", "fedavg")]
    clients = Selection("clients", ("clove", "local", "fedavg"))
    scores = [[0.7, 0.6, 0.68], [0.6, 0.68, 0.67], [0.2, 0.3, 0.1]]
    verdicts = dict(zip(names, map(of_clients, scores), strict=True))
    taken = chosen(clients, verdicts)
    assert taken is not None
    assert (taken.candidate.method, taken.baseline, taken.rivals) == ("clove", names[1], 0)
    assert taken.ahead == pytest.approx(0.01)
    taken = chosen(clients, {one: verdicts[one] for one in names[1:]})
    assert taken is not None
    assert (taken.candidate.method, taken.baseline) == ("local", None)
