from typing import Any

from fedkin.studies.cells import CellResult
from fedkin.studies.question import Candidate, Selection
from fedkin.studies.ranking import CandidateScore, best_numbers, recommend, score_of

SAMPLES = Selection("samples", ("kfed", "kmeans", "kin-graph", "ffcm", "sda-fc"))
KFED, KIN_GRAPH, FFCM, KMEANS = (
    Candidate("kfed", 3),
    Candidate("kin-graph"),
    Candidate("ffcm", 3),
    Candidate("kmeans", 3),
)
THREE, TWO, SIX = [0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 4, 5]


def of_samples(
    again: list[float], labels: list[int] | None = None, moved: int = 1000, ari: float = 0.0
) -> CandidateScore:
    labels = THREE if labels is None else labels
    number = len(set(labels))
    return score_of("samples", [CellResult({"ari": ari}, number, each, labels, moved) for each in again])


def of_clients(scores: list[float | None], clusters: int = 2, moved: int = 1000) -> CandidateScore:
    known = [score for score in scores if score is not None]
    metrics: dict[str, Any] = {"personal_accuracy": sum(known) / len(known), "client_accuracy": scores}
    return score_of("clients", [CellResult(metrics, clusters, None, [0, 1, 0, 1], moved)])


def taken(scores: dict[Candidate, CandidateScore], selection: Selection = SAMPLES, by_truth: bool = False) -> Candidate:
    choice = recommend(selection, scores, by_truth)
    assert choice is not None
    return choice.candidate


def test_what_is_found_again_is_taken() -> None:
    assert taken({KFED: of_samples([0.6]), FFCM: of_samples([0.9]), KMEANS: of_samples([1.0])}) == FFCM


def test_a_finer_partition_is_taken_within_the_spread_of_splits_only() -> None:
    fine, coarse = Candidate("kfed", 6), Candidate("kfed", 2)
    for again, best in ((0.93, fine), (0.85, coarse)):
        assert best_numbers({fine: of_samples([again], SIX), coarse: of_samples([1.0], TWO)}) == {"kfed": best}
    two, six = Candidate("ffcm", 2), Candidate("kfed", 6)
    steady = {six: of_samples([0.93, 0.92, 0.93], SIX), two: of_samples([1.0, 1.0, 1.0], TWO)}
    assert taken(steady) == two  # three splits tell them apart
    unsteady = {six: of_samples([0.99, 0.85, 0.98], SIX), two: of_samples([1.0, 0.9, 0.9], TWO)}
    assert taken(unsteady) == six


def test_of_the_same_clusters_the_fewest_bytes_are_taken() -> None:
    scores = {KIN_GRAPH: of_samples([0.95], moved=500), KFED: of_samples([0.93], moved=10), FFCM: of_samples([0.5])}
    choice = recommend(SAMPLES, scores)
    assert choice is not None
    assert (choice.candidate, choice.as_good, choice.undecided) == (KFED, (KIN_GRAPH,), ())


def test_one_cluster_moved_samples_and_copies_are_never_taken() -> None:
    single = score_of("samples", [CellResult({}, 1, 0.0, [0] * 6)])
    assert (
        recommend(SAMPLES, {KIN_GRAPH: single, KMEANS: of_samples([1.0]), Candidate("sda-fc", 3): of_samples([1.0])})
        is None
    )


def test_the_truth_chooses_where_it_is_asked() -> None:
    scores = {
        KMEANS: of_samples([1.0], ari=1.0),
        KFED: of_samples([0.9], ari=0.4),
        KIN_GRAPH: of_samples([0.2], ari=0.6),
    }
    assert taken(scores, by_truth=True) == KIN_GRAPH
    two = Candidate("kfed", 2)
    assert best_numbers({KFED: of_samples([0.5], ari=0.8), two: of_samples([1.0], TWO, ari=0.1)}, by_truth=True) == {
        "kfed": KFED
    }


def test_clients_are_served_best_and_clusters_come_before_none() -> None:
    clients = Selection("clients", ("local", "ocfl", "ifca"))
    local, ocfl = Candidate("local"), Candidate("ocfl")
    assert taken({ocfl: of_clients([0.9, 0.8, 0.95]), local: of_clients([0.7, 0.6, 0.75])}, clients) == ocfl
    choice = recommend(
        clients, {local: of_clients([0.90, 0.80, 0.95, None]), ocfl: of_clients([0.95, 0.74, 0.95, 0.5])}
    )
    assert choice is not None
    assert (choice.candidate, choice.baseline) == (ocfl, local)
    assert taken({local: of_clients([0.9, 0.8, 0.95]), ocfl: of_clients([0.80, 0.71, 0.85])}, clients) == local
