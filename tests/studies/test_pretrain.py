"""Encoders that are trained beforehand: what their file holds, that training resumes, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedkin.core import FedkinError
from fedkin.nn.encoder import Pretrained
from fedkin.studies import pretrain as pretraining
from fedkin.studies.pretrain import pretrain

QUICK: dict[str, Any] = {"samples": 60, "epochs": 3, "seed": 5}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with data of its own, and a clock that stands still: a file also tells how long its training took."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pretraining.time, "perf_counter", lambda: 1.0)
    np.savez("colour.npz", x=np.random.default_rng(0).random((40, 3, 8, 8), dtype=np.float32))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "encoders" / "digits.safetensors"


def test_the_file_holds_what_was_trained_and_how(out: Path) -> None:
    reported: list[tuple[int, int, float]] = []
    before = torch.get_rng_state()
    trained = pretrain("digits", out, on_epoch=lambda *values: reported.append(values), **QUICK)
    assert torch.equal(torch.get_rng_state(), before)
    assert [(epoch, epochs) for epoch, epochs, _ in reported] == [(1, 3), (2, 3), (3, 3)]
    assert reported[2][2] < reported[0][2]
    assert trained.about == {
        "data": "digits", "label": None, "samples": 60, "seed": 5, "batch_size": 32, "learning_rate": 1e-3,
        "epochs": 3, "error": reported[-1][2], "seconds": 0.0,
    }  # fmt: skip
    assert trained.spec == {"name": "dense-autoencoder", "shape": [1, 8, 8], "output": "sigmoid"}
    loaded = Pretrained.load(out)
    assert (loaded.spec, loaded.about) == (trained.spec, trained.about)
    assert torch.equal(loaded.vector, trained.vector)


@pytest.mark.parametrize(("source", "stop"), [("digits", 1), ("colour.npz", 2)])
def test_stopped_after_any_epoch_and_continued_is_never_stopped(source: str, stop: int, tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    pretrain(source, whole, **QUICK)

    def interrupt(epoch: int, epochs: int, error: float) -> None:
        if epoch == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain(source, stopped, on_epoch=interrupt, **QUICK)
    assert Pretrained.load(stopped).about["epochs"] == stop
    pretrain(source, stopped, **QUICK)
    assert stopped.read_bytes() == whole.read_bytes()


def test_another_way_of_training_is_refused(out: Path) -> None:
    pretrain("digits", out, **QUICK)
    before = out.read_bytes()
    with pytest.raises(FedkinError):
        pretrain("digits", out, **{**QUICK, "seed": 6})
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    "options", [{"source": "nowhere.csv"}, {"name": "autoencoder"}, {"source": "wine", "name": "conv-autoencoder"}]
)
def test_bad_input_is_one_sentence_and_writes_nothing(options: dict[str, Any], out: Path) -> None:
    with pytest.raises(FedkinError) as refused:
        pretrain(**{"source": "digits", "path": out, **QUICK, **options})
    assert "\n" not in str(refused.value)
    assert not out.parent.exists()
