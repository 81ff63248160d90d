from pathlib import Path

import pytest

from fedkin.core import FedkinError
from fedkin.studies.question import Candidate, question_of
from site_files import sites


def test_data_are_partitioned_for_clusters_of_samples() -> None:
    question = question_of("blobs")
    assert (question.family, question.data, question.scenario) == ("samples", "blobs", "own-class")
    assert question.name == "blobs-own-class"
    assert "--question clients" in question.description


@pytest.mark.parametrize(
    ("scenario", "family"), [("own-class", "samples"), ("label-skew", "samples"), ("rotation", "clients"),
                             ("iid", "clients"), ("label-clusters", "clients")]
)  # fmt: skip
def test_the_scenario_tells_what_is_to_be_clustered(scenario: str, family: str) -> None:
    question = question_of(scenario, seed=7)
    assert (question.family, question.scenario, question.data) == (family, scenario, "digits")
    assert question.name == f"digits-{scenario}-seed7"


def test_methods_and_the_user_tell_it_before_the_scenario() -> None:
    assert question_of("digits", methods=["ocfl", "ifca"]).scenario == "label-clusters"
    assert question_of("digits", methods=["ocfl", "ifca"]).family == "clients"
    assert question_of("rotation", methods=["kfed"]).family == "samples"
    assert question_of("rotation", asked="samples").family == "samples"
    assert question_of("digits", asked="clients").scenario == "label-clusters"
    assert question_of("digits", methods=["ocfl", "kfed"]).family == "samples"


def test_files_of_clients_are_samples_unless_clients_are_asked_for(tmp_path: Path) -> None:
    folder = sites(tmp_path / "hospitals")
    samples = question_of(folder)
    assert (samples.family, samples.scenario, samples.name) == ("samples", "files", "hospitals-files")
    assert len(samples.check(samples.config(Candidate("kfed", 2), 0).population()).clients) == 3
    clients = question_of(folder, asked="clients")
    assert (clients.family, clients.name) == ("clients", "hospitals-files-clients")
    config = clients.config(Candidate("ocfl"), 0)
    assert config.scenario.test_fraction == 0.2
    assert clients.check(config.population()).tests


def test_an_experiment_lends_its_data_scenario_and_engine(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'seed = 5\n[data]\nsource = "wine"\n[scenario]\nname = "label-skew"\nclients = 4\n[engine]\nworkers = 1\n'
        '[method]\nname = "fedcref"\nrounds = 3\n'
    )
    question = question_of(str(file), settings=["scenario.clients=6", "method.rounds=2"])
    config = question.config(Candidate("kfed", 3), 8)
    assert (question.seed, config.seed, config.data_seed) == (5, 8, 5)
    assert (config.data.source, config.scenario.clients, config.engine.workers) == ("wine", 6, 1)
    assert config.method_name == "kfed"
    assert config.method.n_clusters == 3


def test_settings_of_methods_are_for_the_runs_of_an_experiment_too(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[method]\nname = "ocfl"\nrounds = 50\nwings = 2\n[target]\nmetric = "ari"\n[tracking]\nto = []\n')
    assert question_of(str(file)).settings == {}
    question = question_of(str(file), scenario="label-clusters", settings=["method.rounds=3"])
    assert question.config(Candidate("ocfl"), 0).method.rounds == 3
    assert question.config(Candidate("ocfl"), 0).target.metric is None


def test_settings_of_methods_go_to_those_that_have_them() -> None:
    question = question_of("label-clusters", settings=["method.rounds=4", "data.scaling=none"], clients=6)
    assert question.config(Candidate("ocfl"), 0).method.rounds == 4
    config = question.config(Candidate("ifca", 2), 1)
    assert (config.method.rounds, config.method.n_clusters, config.data.scaling) == (4, 2, "none")
    assert config.scenario.clients == 6


def test_runs_of_all_seeds_are_of_the_same_clients() -> None:
    question = question_of("wine", seed=3)
    one, other = (question.check(question.config(Candidate("kfed", 3), seed).population()) for seed in (3, 4))
    assert all((a.x == b.x).all() for a, b in zip(one.clients, other.clients, strict=True))
    another = question_of("wine", seed=4)
    third = another.config(Candidate("kfed", 3), 4).population()
    assert any(a.x.shape != b.x.shape or (a.x != b.x).any() for a, b in zip(one.clients, third.clients, strict=True))


def test_clients_without_labels_are_refused(tmp_path: Path) -> None:
    question = question_of("own-class", data="blobs", asked="clients")
    with pytest.raises(FedkinError, match="have no labels, which methods that cluster clients learn from"):
        question.check(question.config(Candidate("ocfl"), 0).population())
