"""What a comparison asks, tries and judges."""

from pathlib import Path

import numpy as np
import pytest

from fedkin.core.runner import Callback
from fedkin.data.inputs import ClientFiles
from fedkin.experiment.config import load_config
from fedkin.studies.compare import methods_of, question_of, run_cell
from fedkin.studies.comparison import Candidate, CellResult, Score, best_numbers, recommend
from site_files import sites


def test_files_of_clients_are_taken_as_they_are_and_others_are_dealt_out(tmp_path: Path) -> None:
    folder = sites(tmp_path / "hospitals")
    question = question_of(folder)
    assert (question.scenario, question.name) == ("files", "hospitals-files")
    assert len(question.config(Candidate("kfed", 2), 0).population().clients) == 3
    question = question_of("digits", "label-skew", seed=7)
    assert (question.scenario, question.data, question.name) == ("label-skew", "digits", "digits-label-skew-seed7")


def test_an_experiment_lends_its_data_scenario_and_engine(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'seed = 5\n[data]\nsource = "wine"\n[simulation]\nscenario = "label-skew"\nclients = 4\n[device]\nworkers = 1\n'
        '[method]\nname = "fedcref"\nrounds = 3\n'
    )
    question = question_of(str(file), settings=["simulation.clients=6", "method.rounds=2"])
    config = question.config(Candidate("kfed", 3), 8)
    assert (question.seed, config.seed, config.data_seed) == (5, 8, 5)
    assert (config.data.source, config.scenario.clients, config.device.workers) == ("wine", 6, 1)
    assert config.method_name == "kfed"
    assert config.method.n_clusters == 3


@pytest.mark.parametrize(("name", "unknown"), [("kfed", {}), ("kin-graph", {"n_clusters": "auto"})])
def test_who_must_be_given_the_number_of_clusters(name: str, unknown: dict[str, object]) -> None:
    assert Candidate(name).settings({}) == {"name": name, **unknown}
    assert Candidate(name, 3).settings({}) == {"name": name, "n_clusters": 3}
    assert methods_of(["kin-graph", "kfed"]) == ("kfed", "kin-graph")  # the cheapest first


KFED, KIN_GRAPH, FFCM = Candidate("kfed", 3), Candidate("kin-graph"), Candidate("ffcm", 3)
KMEANS, SYNTHETIC = Candidate("kmeans", 3), Candidate("sda-fc", 3)
THREE, TWO, SIX = [0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 4, 5]


def of_samples(candidate: Candidate, again: list[float], labels: list[int] = THREE) -> Score:
    number = len(set(labels))
    return Score(
        candidate.method, candidate.number, tuple(CellResult({}, number, value, labels, 1000) for value in again)
    )


def taken(*scores: Score) -> str:
    choice = recommend(scores)
    assert choice is not None
    return choice.score.candidate.name


def test_what_is_found_again_is_taken_unless_it_moves_samples() -> None:
    scores = [of_samples(KFED, [0.6]), of_samples(FFCM, [0.9]), of_samples(KMEANS, [1.0])]
    assert taken(*scores) == FFCM.name


def test_a_finer_partition_is_taken_within_the_spread_of_splits_only() -> None:
    fine, coarse = Candidate("kfed", 6), Candidate("kfed", 2)
    for again, best in ((0.93, fine), (0.85, coarse)):
        numbers = best_numbers([of_samples(fine, [again], SIX), of_samples(coarse, [1.0], TWO)])
        assert numbers["kfed"].candidate.name == best.name
    two, six = Candidate("ffcm", 2), Candidate("kfed", 6)
    steady = of_samples(six, [0.93, 0.92, 0.93], SIX), of_samples(two, [1.0, 1.0, 1.0], TWO)
    assert taken(*steady) == two.name  # three splits tell them apart
    unsteady = of_samples(six, [0.99, 0.85, 0.98], SIX), of_samples(two, [1.0, 0.9, 0.9], TWO)
    assert taken(*unsteady) == six.name
    choice = recommend(unsteady)
    assert choice is not None
    assert [score.candidate.name for score in choice.undecided] == [two.name]  # its clusters differ, and it is as good


def test_a_number_that_is_found_comes_before_given_ones_unless_the_number_is_known() -> None:
    found, coarse = of_samples(KIN_GRAPH, [0.7], SIX), of_samples(Candidate("kfed", 2), [1.0], TWO)
    own = of_samples(Candidate("kin-graph", 2), [1.0], TWO)
    assert best_numbers([found, own])["kin-graph"].candidate == KIN_GRAPH
    choice = recommend([found, coarse])
    assert choice is not None
    assert choice.score.candidate == KIN_GRAPH
    assert [score.candidate for score in choice.undecided] == [coarse.candidate]  # which is found again more surely
    known = recommend([found, coarse], is_known=True)
    assert known is not None
    assert known.score.candidate == coarse.candidate
    one = of_samples(KIN_GRAPH, [0.0], [0] * 6)
    assert taken(one, coarse) == coarse.candidate.name


def test_one_cluster_moved_samples_and_copies_are_never_taken() -> None:
    single = of_samples(KIN_GRAPH, [0.0], [0] * 6)
    assert recommend([single, of_samples(KMEANS, [1.0]), of_samples(SYNTHETIC, [1.0])]) is None


RNG = np.random.default_rng(3)


def result_on(sources: list[np.ndarray], method: str = "kfed", clusters: int = 3, seed: int = 0):
    settings = [f"method.n_clusters={clusters}", f"seed={seed}", "data.source=x", "simulation.scenario=files"]
    return run_cell(load_config(method, settings), ClientFiles(sources, "none").build(), Callback())


def test_separate_clusters_are_found_again_and_pieces_of_a_cloud_less_so() -> None:
    clusters = [RNG.normal(size=(90, 2)) + 9 * np.eye(3, 2)[np.arange(90) % 3] for _ in range(3)]
    cloud = [RNG.normal(size=(90, 6)) for _ in range(3)]
    clear, pieces = result_on(clusters), result_on(cloud)
    assert clear.again == pytest.approx(1, abs=0.02)
    assert clear.clusters == 3
    assert pieces.again < 0.6
    assert result_on(cloud, seed=1).again != pieces.again  # another split
