"""One client of six lies in one field of one reply: the others still get their result, and nothing crashes."""

import random
import re

import pytest

import hostile
from fedkin.core import FedkinError
from fuzzing import CASES

NAMES = ("kfed", "ffcm", "fedavg", "ifca", "gradient-loss", "embedding", "kin-graph private")
"""Tried in every run of the tests; with FEDKIN_FUZZ all methods of `hostile.SMALL` are."""
SAMPLES, FEDCREF = "fedkin.methods.samples", "fedkin.methods.samples.fedcref.tasks"


@pytest.mark.parametrize("name", list(hostile.SMALL) if CASES else NAMES)
def test_a_lie_harms_nobody_else(name: str) -> None:
    lies = hostile.cases(name)
    happened = 0
    for lie in random.Random(name).sample(lies, min(len(lies), max(6, CASES // len(NAMES)))):
        try:
            fed, result, records = hostile.run(name, lie)
        except FedkinError as error:
            happened += _names_the_liar(error)
            continue
        happened += fed.lies
        assert result
        for record in records:
            assert set(record.missing) <= {hostile.LIAR}
    assert happened


def _names_the_liar(error: FedkinError) -> bool:
    """True, for a run may only end with an error that says whose fault it is."""
    assert re.search(rf"[Cc]lient {hostile.LIAR}\b", str(error))
    return True


@pytest.mark.parametrize(
    ("name", "lie"),
    [
        ("kmeans", hostile.Lie(f"{SAMPLES}.centroid_method.send_samples", "points", "1e20")),
        ("kin-graph private", hostile.Lie(f"{SAMPLES}.kingraph.private_kingraph.send_noisy_sums", "counts", "1e20")),
        ("dec", hostile.Lie(f"{SAMPLES}.centroid_method.send_samples", "points", "torch.float64")),
        ("sda-fc", hostile.Lie(f"{SAMPLES}.synthetic_samples.synthesise", "x", "torch.float64")),
        ("sda-fc", hostile.Lie(f"{SAMPLES}.synthetic_samples.synthesise", "x", "1e20")),
        ("fedcref", hostile.Lie(f"{FEDCREF}.score", "statistics", "minus")),
        ("fedcref", hostile.Lie(f"{FEDCREF}.refine", "selected", "empty")),
        ("ifca seeded", hostile.Lie("fedkin.methods.clients.client_method.losses", "losses", "minus")),
    ],
)
def test_samples_scores_and_losses_that_cannot_be_are_refused(name: str, lie: hostile.Lie) -> None:
    fed, result, records = hostile.run(name, lie)
    assert fed.lies
    assert result
    named = [*fed.dropped, *(client for record in records for client in record.missing)]
    assert set(named) == (set() if name == "ifca seeded" else {hostile.LIAR})  # whose lie is told before the first step


@pytest.mark.parametrize("classes", [10**6, 2**31, 10**400, 0, True, -1])
def test_a_lie_about_classes_leaves_the_liar_out(classes: int) -> None:
    class Liar(hostile.LyingFederation):
        def deliver(self, task, payloads):
            for client, reply in super().deliver(task, payloads):
                lies = client == hostile.LIAR and "classes" in reply
                yield client, {**reply, "classes": classes} if lies else reply

    method, fed = hostile.method_of("fedavg"), Liar(hostile.clients_for("fedavg"))
    state = method.init(fed)
    assert state.module["classes"] == 2
    assert list(fed.dropped) == [hostile.LIAR]


def test_a_client_that_denies_all_of_its_samples_is_missing() -> None:
    lie = hostile.Lie("fedkin.methods.samples.uifca.choose_and_train", "samples", "zeros")
    fed, result, records = hostile.run("uifca", lie)
    assert fed.lies
    assert result
    assert {hostile.LIAR: "'samples' is not what it should be"} in [record.missing for record in records]
