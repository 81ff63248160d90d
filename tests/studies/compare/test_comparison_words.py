"""What a comparison says of a method, and the command that it recommends."""

import json
import shlex
from itertools import pairwise

import pytest

from fedkin.experiment.config import load_config
from fedkin.studies.compare import question_of
from fedkin.studies.compare.better_than_chance import ChanceTest
from fedkin.studies.compare.candidates import Candidate
from fedkin.studies.compare.comparison_words import about_as_good, alone, behind_truth, by_chance, reason, remark, use
from fedkin.studies.compare.judging import CandidateScore
from fedkin.studies.compare.ranking import Choice

KFED = Candidate("kfed", 3)


def test_remarks() -> None:
    assert remark("", 3, 5, None, True) == ""
    assert remark("", 0, 1, None, True) == "not finished in the budget, stopped after 1 step"
    assert remark("baseline", 0, 0, None, False) == "forms no clusters; not started in the budget"
    assert remark("", 0, 0, "It is too small.", True) == "cannot be applied: It is too small"
    assert remark("centralised", 1, 9, None, True) == "a centralised baseline: moves the data"


def test_the_cohesion_of_the_test_against_chance_is_told_from_that_of_the_ranking() -> None:
    said = by_chance(ChanceTest(0.273, 0.394, 19))
    assert (
        "the best cohesion in single columns of at most 600 samples, which is not the ranking's, is 0.273, and" in said
    )
    assert "cohesion in principal components of at" in by_chance(ChanceTest(0.2, 0.3, 19, "principal components"))


@pytest.mark.parametrize(
    ("stability", "stable", "words"),
    [
        (1.0, 1, "finds the same clusters over seeds (ARI 1.00)"),
        (0.95, 0, "finds the same clusters over seeds as stably as any of these (ARI 0.95)"),
        (0.3, 1, "agrees with itself over seeds to ARI 0.30"),
        (0.3, 0, "agrees with itself over seeds, as much as any of these, to ARI 0.30"),
    ],
)
def test_clusters_are_called_the_same_only_if_they_are(stability: float, stable: int, words: str) -> None:
    verdict = CandidateScore({"cohesion": 0.8, "stability": stability}, {}, (), (3, 3), 1000, 1.0, ())
    said = reason("samples", Choice(KFED, 1, stable), {KFED: verdict}, by_truth=False)
    assert said.startswith(
        f"keeps neighbouring samples in one cluster (cohesion 0.800), as good as 1 other, {words} and moves 1 kB"
    )


@pytest.mark.parametrize(
    ("label", "bare"),
    [("kind", True), ("a kind of ä", True), ("2020", False), ("1e5", False), ("true", False), ("inf", False),
     ("2020-01-02", False), ('"kind"', False), ("'", True), ("", True), ("[1]", False), (" 7", False)],
)  # fmt: skip
def test_the_command_it_recommends_keeps_text_as_text(label: str, bare: bool) -> None:
    question = question_of("mine.csv", settings=[f"data.label={json.dumps(label, ensure_ascii=False)}"])
    words = shlex.split(use(question, Candidate("kfed", 3))[0])
    settings = [value for word, value in pairwise(words) if word == "--set"]
    assert load_config("kfed", settings).data.label == label
    assert (f"data.label={label}" in settings) == bare


def test_names_with_commas_are_apart():
    assert about_as_good(["kfed, 4 clusters", "kin-graph"]) == (
        "About as good by the score: kfed, 4 clusters; kin-graph."
    )
    assert about_as_good(["mufc", "afcl", "kin-graph"]) == "About as good by the score: mufc, afcl and kin-graph."


def test_a_baseline_that_is_as_good_is_named():
    clove, local = Candidate("clove", 2), Candidate("local")
    scores = {clove: 0.669, local: 0.658}
    verdicts = {one: CandidateScore({"accuracy": value}, {}, (), (2,), 1000, 1.0, ()) for one, value in scores.items()}
    said = reason("clients", Choice(clove, ahead=0.011, baseline=local), verdicts, by_truth=False)
    assert said.startswith(
        "reaches an accuracy of 0.669 on clients' own test samples, 0.011 more than any other, is not significantly "
        "better than local, which forms no clusters (0.658) and moves "
    )


def test_a_gap_of_nothing_is_no_gap():
    assert behind_truth(0.0) == "By the truth, too, no other that could be recommended is better (ARI)."
    assert behind_truth(0.25) == "By the truth it is 0.250 (ARI) behind the best that could be recommended."


def test_it_is_said_that_there_was_no_choice():
    assert alone(["ifca"]) == (
        "Only ifca finished, so it was compared with nothing; the same with a larger budget resumes."
    )
    assert alone(["fedavg", "local"]) == (
        "Only fedavg and local finished, which form no clusters; the same with a larger budget resumes."
    )
