import pytest

from fedkin.core import FedkinError
from fedkin.experiment import registry
from fedkin.studies.compare.candidates import Candidate, Selection, selection_of, traits_of


def test_every_method_has_a_family_and_a_cost() -> None:
    traits = {name: traits_of(name) for name in registry.METHODS}
    assert {name for name, own in traits.items() if own.family == "clients"} == {
        *("embedding", "ladd", "fedavg", "fedopt", "local", "ifca", "gradient-loss", "ocfl", "sattler", "hierarchical")
    }
    costs = [own.cost for own in traits.values()]
    assert len(set(costs)) == len(costs)


@pytest.mark.parametrize(
    ("name", "number", "unknown"),
    [
        ("kfed", "given", {}),
        ("kin-graph", "either", {"n_clusters": "auto"}),
        ("ladd", "either", {"n_clusters": None}),
        ("fedcref", "found", {}),
        ("ocfl", "found", {}),
        ("sattler", "found", {}),
        ("ifca", "given", {}),
    ],
)
def test_who_must_be_told_the_number_of_clusters(name: str, number: str, unknown: dict[str, object]) -> None:
    traits = traits_of(name)
    assert (traits.number, traits.unknown) == (number, unknown)


@pytest.mark.parametrize(
    ("name", "role"),
    [("kmeans", "yardstick"), ("dec", "yardstick"), ("sda-fc", "copies"), ("local", "bound"), ("kfed", "")],
)
def test_what_is_not_recommended(name: str, role: str) -> None:
    assert Selection.role(name) == role


def test_all_methods_of_the_family_the_cheapest_first() -> None:
    selection = selection_of("samples", ["all"])
    assert set(selection.methods) == {name for name in registry.METHODS if traits_of(name).family == "samples"}
    assert selection.methods[0] == "kfed"
    assert selection.methods[-1] == "ccfc"
    assert selection.needy[0] == "kfed"


def test_without_a_number_those_that_find_one_come_first() -> None:
    selection = selection_of("samples", ["ccfc", "kfed", "kin-graph", "fedcref"])
    assert selection.first(None) == [Candidate("kin-graph"), Candidate("fedcref")]
    assert selection.first(4) == [Candidate("kfed", 4), Candidate("kin-graph", 4), Candidate("fedcref"),
                                  Candidate("ccfc", 4)]  # fmt: skip
    assert selection.told([4, 7], cheap=True) == [
        *(Candidate("kfed", number) for number in (4, 7)), *(Candidate("kin-graph", number) for number in (4, 7))
    ]  # fmt: skip
    assert selection.told([4], cheap=False) == [Candidate("ccfc", 4)]


def test_a_candidate_is_a_section_of_an_experiment() -> None:
    given = {"rounds": 3, "smoothing": 0}
    assert Candidate("kin-graph").settings(given) == {"name": "kin-graph", "smoothing": 0, "n_clusters": "auto"}
    assert Candidate("kin-graph", 5).settings({}) == {"name": "kin-graph", "n_clusters": 5}
    assert Candidate("ladd").settings(given) == {"name": "ladd", "rounds": 3, "n_clusters": None}
    assert (Candidate("kfed", 5).folder, Candidate("fedcref").folder) == ("kfed-5", "fedcref")


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(FedkinError, match=r"kfedd.*kfed"):
        selection_of("samples", ["kfedd"])


def test_a_method_of_the_other_family_is_refused() -> None:
    with pytest.raises(FedkinError, match=r"'ocfl' clusters clients.*--question clients"):
        selection_of("samples", ["kfed", "ocfl"])


def test_no_method_at_all_is_refused() -> None:
    with pytest.raises(FedkinError, match="names no method"):
        selection_of("samples", [])
