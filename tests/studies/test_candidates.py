import pytest

from fedkin.core import FedkinError
from fedkin.core.options import options_of
from fedkin.experiment import registry
from fedkin.studies.question import Candidate, Selection, method_named, selection_of


def test_every_method_says_what_it_clusters() -> None:
    made = {name: method_named(name) for name in registry.METHODS}
    assert {name for name, own in made.items() if own.traits.clusters == "clients"} == {
        *("embedding", "ladd", "fedavg", "fedopt", "local", "ifca", "gradient-loss", "ocfl", "sattler", "hierarchical"),
        *("pacfl", "flux", "feddrift", "fedrc", "clove", "cfl-gp", "fesem", "fedgroup"),
    }
    assert {own.traits.clusters for own in made.values()} == {"samples", "clients"}
    assert {name for name, own in made.items() if own.traits.cost == "cheap"} == {
        *("kfed", "mufc", "kmeans", "fuzzy-cmeans", "ffcm", "kin-graph", "ifca", "gradient-loss", "ladd", "pacfl"),
        *("afcl", "feddp-kmeans"),
    }


@pytest.mark.parametrize(
    ("name", "finds_k", "takes_k", "unknown"),
    [
        ("kfed", False, True, {}),
        ("kin-graph", True, True, {"n_clusters": "auto"}),
        ("ladd", True, True, {"n_clusters": None}),
        ("fedcref", True, False, {}),
        ("afcl", True, False, {}),
        ("ocfl", True, False, {}),
        ("sattler", True, False, {}),
        ("fedavg", True, False, {}),
        ("ifca", False, True, {}),
    ],
)
def test_who_must_be_given_the_number_of_clusters(
    name: str, finds_k: bool, takes_k: bool, unknown: dict[str, object]
) -> None:
    made = method_named(name)
    assert (made.traits.finds_k, made.traits.takes_k) == (finds_k, takes_k)
    assert Candidate(name).settings({}) == {"name": name, **unknown}


def test_every_method_that_takes_a_number_of_clusters_has_a_field_for_it() -> None:
    for name in registry.METHODS:
        made = method_named(name)
        assert not made.traits.takes_k or "n_clusters" in {field.name for field in options_of(made)}


@pytest.mark.parametrize(
    ("name", "role"),
    [("kmeans", "centralised"), ("dec", "centralised"), ("sda-fc", "synthetic"), ("local", "baseline"), ("kfed", "")],
)
def test_what_is_not_recommended(name: str, role: str) -> None:
    assert Selection.role(name) == role


def test_all_methods_of_the_family_the_cheapest_first() -> None:
    selection = selection_of("samples", ["all"])
    assert set(selection.methods) == {
        name for name in registry.METHODS if method_named(name).traits.clusters == "samples"
    }
    assert selection.methods[0] == "kfed"
    assert selection.methods[-1] == "ccfc"
    assert selection.needy[0] == "kfed"


def test_without_a_number_those_that_find_one_come_first() -> None:
    selection = selection_of("samples", ["ccfc", "kfed", "kin-graph", "fedcref"])
    assert selection.first(None) == [Candidate("kin-graph"), Candidate("fedcref")]
    assert selection.first(4) == [Candidate("kfed", 4), Candidate("kin-graph", 4), Candidate("fedcref"),
                                  Candidate("ccfc", 4)]  # fmt: skip
    assert selection.with_k([4, 7], cheap=True) == [
        *(Candidate("kfed", number) for number in (4, 7)), *(Candidate("kin-graph", number) for number in (4, 7))
    ]  # fmt: skip
    assert selection.with_k([4], cheap=False) == [Candidate("ccfc", 4)]


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
