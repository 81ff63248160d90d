"""Rules that a site owns: each refuses by its name alone, and `check` shows them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from fedkin.core import FedkinError
from fedkin.core.errors import RefusalError
from fedkin.core.tasks import known_task, trusted_packages
from fedkin.data.columns import moments, shapes, table_columns
from fedkin.deploy.site_app import checked, client_app, read_site
from fedkin.engines.flower_engine.grid import Roster
from fedkin.engines.site import Request, Site
from fedkin.methods.samples.kfed import cluster_locally
from fedkin.methods.samples.sample_method import describe
from nodes import Nodes, federation

YESTERDAY, TOMORROW = (datetime.now(UTC).date() + timedelta(days) for days in (-1, 1))
SECRET = 73.625  # the largest value, of one row


def node(folder: Path, policy: str, more: str = "") -> Nodes:
    """The one node of a federation whose site has this policy beside its file."""
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{'abc'[i % 3]}" for i, (a, b) in enumerate(rng.normal(size=(40, 2)))]
    (folder / "north.csv").write_text("\n".join(["a,b,kind", *rows, f"{SECRET},0.0,a"]))
    (folder / "site.toml").write_text(f'name = "north"\ndata = "north.csv"\nfolder = "private"\nlabel = "none"\n{more}')
    (folder / "policy.toml").write_text(policy)
    nodes = Nodes(client_app(), 1)
    nodes.contexts[nodes.node(0)].node_config["site"] = str(folder / "site.toml")
    return nodes


def site(folder: Path, policy: str, more: str = "") -> Site:
    node(folder, policy, more)
    return read_site(folder / "site.toml")


def test_a_rule_refuses_by_its_name_alone(tmp_path: Path) -> None:
    fed = federation(node(tmp_path, 'messages = ["fedkin.methods.*", "*.shapes"]'))
    with pytest.raises(FedkinError) as error:
        fed.ask(moments, fed.all())
    assert str(error.value).endswith("The site's policy refuses this: messages.")
    assert str(SECRET) not in str(error.value)
    sent = tmp_path / "private" / fed.run
    assert not list(sent.glob("memory-*"))  # what is not sent is not remembered either


def test_what_no_rule_forbids_is_done(tmp_path: Path) -> None:
    fed = federation(
        node(tmp_path, f'extremes = false\nmessages = ["*.shapes", "*.describe"]\nvalid_until = {TOMORROW}')
    )
    assert fed.ask(shapes, fed.all())[0]["names"] == ["a", "b", "kind"]
    assert set(fed.ask(describe, fed.all())[0]) == {"shape", "unit"}


def test_after_its_day_nothing_is_answered_not_even_who_it_is(tmp_path: Path) -> None:
    reported: list[str] = []
    nodes = node(tmp_path, f"valid_until = {YESTERDAY}")
    assert Roster(nodes, report=reported.append).greet() == []
    assert reported == [f"Refused: Node {nodes.node(0)}: The site's policy refuses this: valid_until."]
    with pytest.raises(RefusalError, match="valid_until"):
        site(tmp_path, f"valid_until = {YESTERDAY}").answer(Request("ab", 0, 0, 1, 0, moments.name), {})


def test_a_run_spends_no_more_than_a_run_may(tmp_path: Path) -> None:
    reserve = site(tmp_path, "epsilon = 8.0\nepsilon_per_run = 1.0").account.reserve
    assert not reserve("ab", 0.5)
    assert reserve("ab", 0.2)
    assert reserve("cd", 0.2)


@pytest.mark.parametrize(
    ("own", "policy", "asked", "named"), [(0, 30, 5, 0), (0, 5, 5, 3), (30, 5, 5, 0), (0, 5, 30, 0)]
)
def test_the_strictest_floor_holds(own: int, policy: int, asked: int, named: int, tmp_path: Path) -> None:
    north = site(tmp_path, f"min_members = {policy}", f"min_members = {own}" if own else "")
    reply, _ = north.answer(Request("ab", 0, 0, 1, 0, table_columns.name), {"min_members": asked})
    assert sum(len(report[-1]) for report in reply["columns"]) == named


@pytest.mark.parametrize(("own", "policy"), [("epsilon = 8.0", "epsilon = 1.0"), ("epsilon = 1.0", "epsilon = 8.0")])
def test_the_smaller_budget_holds(own: str, policy: str, tmp_path: Path) -> None:
    reserve = site(tmp_path, policy, own).account.reserve
    assert not reserve("ab", 1.0)
    assert reserve("ab", 0.1)


@pytest.mark.parametrize(
    "policy",
    [
        "extreme = false",
        "epsilon_per_run = 1.0",
        "min_members = 2",
        'valid_until = "soon"',
    ],
)
def test_a_policy_that_is_not_understood_lets_nothing_out(policy: str, tmp_path: Path) -> None:
    reported: list[str] = []
    nodes = node(tmp_path, policy)
    assert Roster(nodes, report=reported.append).greet() == []
    assert reported[0].endswith("its own log says more")
    with pytest.raises(FedkinError):
        checked(tmp_path / "site.toml")


def test_a_sum_in_secret_is_no_way_round_the_messages(tmp_path: Path) -> None:
    north = site(tmp_path, 'messages = ["fedkin.data.*"]')
    with trusted_packages(None, "", north.policy.check_allowed), pytest.raises(RefusalError, match=r"messages\.$"):
        known_task(cluster_locally.name)


def test_check_shows_the_rules(tmp_path: Path) -> None:
    site(tmp_path, "extremes = false\nmin_members = 9")
    assert checked(tmp_path / "site.toml")[-1] == "Its policy: min_members = 9, extremes = False."
    assert not (tmp_path / "private").exists()  # nothing is written
