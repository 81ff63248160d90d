import pytest

from fedkin.studies.attack.attack_page import headlines, verdict


def tree(epsilon: float | None = 439.4, flip: float = 0.1, sent: float = 0.07, alone: float = 0.67) -> dict:
    held = {"1": {"advantage": alone, "margin": 0.02}, "sent": {"advantage": sent, "margin": 0.08}}
    levels = [{"flip": each, "held": held} for each in (0.0, 0.1)]
    shown = [{"flip": each, "recognised": 0.075} for each in (None, 0.0, 0.1)]
    return {
        "flips": [flip],
        "statements": [{"epsilon_client": epsilon}],
        "membership": {"levels": levels},
        "reconstruction": {"levels": shown, "samples": 200},
    }


def test_an_epsilon_that_guarantees_nothing_is_called_so() -> None:
    said = verdict(tree())
    assert "there is no meaningful guarantee (ε = 439 for all samples of a client)" in said
    assert said.endswith(
        "no better than chance (advantage 0.07 ± 0.08), but a sample that is the only one of its class at its client "
        "shows (0.67 ± 0.02)."
    )
    assert headlines(tree()) == [
        ("Guarantee", "none", "that is meaningful for all samples of a client; ε is 439"),
        ("Advantage, one sample", "0.67 ± 0.02", "where a client has one sample of a class"),
        ("Advantage, as sent", "0.07 ± 0.08", "of membership inference; 0 is chance, 1 certainty"),
        ("Recognised", "7.5 %", "of reconstructed samples; chance 0.5 %"),
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": 2.0}, "With every bit flipped with probability 10 %, a message guarantees ε = 2 for all samples"),
        ({"epsilon": None, "flip": 0.0}, "Without noise, there is no privacy guarantee."),
        ({"sent": 0.3}, "reveal who took part (advantage 0.30 ± 0.08)"),
        ({"sent": 0.1}, "reveal a little of who took part"),
        ({"alone": 0.05}, "is no better than chance (advantage 0.07 ± 0.08)."),
    ],
)
def test_the_verdict_follows_the_numbers(changes: dict, words: str) -> None:
    assert words in verdict(tree(**changes))
