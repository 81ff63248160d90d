"""Names that may be meant for others."""

import pytest

from fedkin.core.errors import ALIASES, nearest


@pytest.mark.parametrize(
    ("word", "names", "meant"),
    [
        ("n_cluster", ["n_clusters", "rounds"], "n_clusters"),
        ("purchase", ["Purchase", "WeekofPurchase"], "Purchase"),
        ("rounds", ["method.rounds", "seed"], "method.rounds"),
        ("x", [], None),
        ("lr", ["learning_rate", "local_epochs"], "learning_rate"),
        ("seed", ["random_state", "rounds"], "random_state"),  # of an estimator
        ("random_state", ["seed", "seeds"], "seed"),  # of compare
        ("mu", ["method.proximal"], "method.proximal"),  # of an experiment's file
        ("fraction_fit", ["fraction_train", "fraction_evaluate"], "fraction_train"),  # of a strategy
        ("target", ["y", "eval"], "y"),
        ("qqq", ["learning_rate"], None),
    ],
)
def test_a_word_means_what_the_door_has(word: str, names: list[str], meant: str | None) -> None:
    assert nearest(word, names) == meant


def test_every_alias_is_an_option_somewhere() -> None:
    """A word that stands for nothing would hide the nearest name."""
    import fedkin
    from fedkin.core.method import options_of
    from fedkin.experiment import registry
    from fedkin.experiment.config import DataSection
    from fedkin.flower.strategies import OPTIONS
    from fedkin.studies.compare import compare

    names = {option.name for name in registry.METHODS for option in options_of(registry.resolve("method", name))}
    names |= {*DataSection.model_fields, *OPTIONS, *fedkin.IFCA().get_params()}
    names |= {*dir(fedkin.KinGraph)}  # results
    names |= {*compare.__wrapped__.__code__.co_varnames, *fedkin.IFCA.fit.__wrapped__.__code__.co_varnames}
    assert {alias for aliases in ALIASES.values() for alias in aliases} - names == {
        "num_rounds",
        "clusters",
    }  # of start(), of the command line
