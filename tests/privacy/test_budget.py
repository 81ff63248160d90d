"""A client's own account of privacy: what it allows, remembers, and makes of a file that is not its own."""

import json
import math
import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core import Client, FedkinError
from fedkin.core.files import file_lock
from fedkin.privacy.budget import ACCOUNT, Account, released
from fedkin.privacy.gaussian import gaussian_mu
from fedkin.privacy.randomised_response import bit_epsilon, flip_probability

TOTAL = gaussian_mu(4.0, 1e-5)


def stored(folder: Path) -> dict:
    return json.loads((folder / ACCOUNT).read_text())


def test_runs_are_charged_until_nothing_is_left(tmp_path: Path):
    account = Account(tmp_path, 4.0, 1e-5)
    half = TOTAL / math.sqrt(2)
    assert account.reserve("a", half)
    assert stored(tmp_path)["epsilon"] < 4.0
    assert account.reserve("b", half)
    assert not account.reserve("c", 0.01)
    assert stored(tmp_path) == {"epsilon": pytest.approx(4.0, abs=1e-5), "delta": 1e-5, "runs": {"a": half, "b": half}}
    assert (tmp_path / ACCOUNT).stat().st_mode & 0o077 == 0


def test_a_run_is_charged_once_and_for_the_most_it_asked(tmp_path: Path):
    account = Account(tmp_path, 4.0, 1e-5)
    assert [account.reserve("a", mu) for mu in (0.3, 0.3, 0.1, 0.5)] == [True] * 4
    assert stored(tmp_path)["runs"] == {"a": 0.5}
    assert not account.reserve("a", 2 * TOTAL)
    assert Account(tmp_path, 4.0, 1e-5).reserve("a", 0.5)  # what it has it keeps
    assert stored(tmp_path)["runs"] == {"a": 0.5}


@given(asked=st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 1.5)), max_size=12))
def test_what_is_allowed_together_is_within_the_budget_in_whatever_order(tmp_path_factory, asked):
    folder = tmp_path_factory.mktemp("site")
    account, allowed = Account(folder, 4.0, 1e-5), {}
    for run, mu in asked:
        if account.reserve(run, mu):
            allowed[run] = max(mu, allowed.get(run, 0.0))
    assert math.hypot(*allowed.values()) <= TOTAL * (1 + 1e-5)


@pytest.mark.parametrize("mu", [math.inf, math.nan, -1.0])
def test_what_is_no_amount_is_not_allowed(mu: float, tmp_path: Path):
    assert not Account(tmp_path, 4.0, 1e-5).reserve("a", mu)
    assert not (tmp_path / ACCOUNT).exists()


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"runs": 3}', '{"runs": {"a": "b"}}', '{"runs": {"a": NaN}}', '{"runs": {"a": -1}}']
)
def test_a_file_that_cannot_be_read_lets_nothing_out(text: str, tmp_path: Path):
    (tmp_path / ACCOUNT).write_text(text)
    with pytest.raises(FedkinError, match=r"account\.json is not as fedkin wrote it, so nothing may leave the site\.$"):
        Account(tmp_path, 4.0, 1e-5).reserve("a", 0.1)
    assert (tmp_path / ACCOUNT).read_text() == text


def test_the_first_budget_of_a_run_holds(tmp_path: Path):
    """Where a site has set none, a server that raises it learns no more."""
    client = Client(0, torch.zeros(1, 1))
    answers = []
    for at, budget in enumerate((0.1, 100.0, 100.0)):
        asked = {"deviation": 10.0, "budget": budget}
        answers.append(released(client, [torch.tensor([float(at)], dtype=torch.float64)], 1.0, asked))
    assert [answer is None for answer in answers] == [False, True, True]


def test_two_runs_at_once_wait_for_each_other(tmp_path: Path):
    account, answers = Account(tmp_path, 4.0, 1e-5), []
    other = threading.Thread(target=lambda: answers.append(account.reserve("a", 0.1)))
    with file_lock(tmp_path / "account.lock"):
        other.start()
        other.join(0.2)
        assert other.is_alive()
    other.join(10)
    assert answers == [True]


@given(st.floats(0.01, 200), st.integers(1, 300))
def test_a_budget_is_met_with_the_least_flips(epsilon: float, bits: int):
    assert bits * bit_epsilon(flip_probability(epsilon, bits)) == pytest.approx(epsilon)
