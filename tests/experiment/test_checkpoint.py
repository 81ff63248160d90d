from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedkin.core import FedkinError
from fedkin.core.payload import load_tree, owned, save_tree
from fedkin.engines.local import LocalFederation
from fedkin.experiment.checkpoint import restore_checkpoint, snapshot
from toy import Blobs, Toy, ToyState


def started() -> tuple[LocalFederation, ToyState]:
    fed = LocalFederation(Blobs("digits", clients=12).build(0).clients, seed=5)
    method = Toy()
    return fed, method.step(fed, method.init(fed))[0]


def test_a_tree_comes_back_with_views_of_one_tensor(tmp_path: Path) -> None:
    stack = torch.arange(6.0).view(3, 2)
    save_tree(tmp_path / "tree", owned({"a": stack[0], "b": [stack[0], stack.T], "c": {"d": None, "e": 0.1}}))
    tree = load_tree(tmp_path / "tree")
    assert torch.equal(tree["a"], stack[0])
    assert torch.equal(tree["b"][1], stack.T)
    assert tree["c"] == {"d": None, "e": 0.1}


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        save_tree(tmp_path / name, {"x": torch.ones(3), "y": torch.ones(2, dtype=torch.int64), "z": "text"})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_going_on_from_a_checkpoint_is_going_on(tmp_path: Path) -> None:
    fed, state = started()
    exchange, traffic = fed.exchange, replace(fed.traffic)
    save_tree(tmp_path / "checkpoint", snapshot(fed, state))
    state = restore_checkpoint(fed, ToyState, snapshot(fed, state))
    fresh = LocalFederation(Blobs("digits", clients=12).build(0).clients, seed=5)
    resumed = restore_checkpoint(fresh, ToyState, load_tree(tmp_path / "checkpoint"))
    assert resumed.pair == state.pair == (12,)
    assert (fresh.exchange, fresh.traffic) == (fed.exchange, fed.traffic) == (exchange, traffic)
    for now, then in ((fed, state), (fresh, resumed)):
        now_state, _ = Toy().step(now, then)
        save_tree(tmp_path / f"{id(now)}", snapshot(now, now_state))
    assert (tmp_path / f"{id(fed)}").read_bytes() == (tmp_path / f"{id(fresh)}").read_bytes()


@pytest.mark.parametrize("content", [b"", b"not safetensors", None])
def test_what_is_no_checkpoint_is_refused(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "checkpoint").write_bytes(content)
    with pytest.raises(FedkinError, match=r"^Cannot read .*checkpoint: it is not a file that fedkin wrote"):
        load_tree(tmp_path / "checkpoint")
