from pathlib import Path

import numpy as np
import pytest
import torch

from fedkin.core import FedkinError
from fedkin.nn.encoder import Pretrained
from fedkin.studies import pretrain as pretraining
from fedkin.studies.pretrain import pretrain

QUICK = {"samples": 60, "epochs": 3, "seed": 5}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with data of its own, and a clock that stands still: a file also tells how long its training took."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pretraining.time, "perf_counter", lambda: 1.0)
    rng = np.random.default_rng(0)
    np.savez("colour.npz", x=rng.random((40, 3, 8, 8), dtype=np.float32))
    np.savez("tables.npz", x=rng.normal(50.0, 9.0, (90, 6)).astype(np.float32))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "encoders" / "digits.safetensors"


def files(tmp_path: Path) -> set[str]:
    return {file.name for file in tmp_path.rglob("*") if file.is_file()}


def test_the_file_holds_what_was_trained_and_how(out, tmp_path):
    reported = []
    made = pretrain("digits", out, on_epoch=lambda *values: reported.append(values), **QUICK)
    assert [(epoch, epochs) for epoch, epochs, _ in reported] == [(1, 3), (2, 3), (3, 3)]
    assert reported[-1][2] == made.about["error"]
    assert reported[2][2] < reported[0][2]
    assert made.about == {
        "data": "digits", "label": None, "samples": 60, "seed": 5, "batch_size": 32, "learning_rate": 1e-3,
        "epochs": 3, "error": made.about["error"], "seconds": 0.0,
    }  # fmt: skip
    assert made.spec == {"name": "dense-autoencoder", "shape": [1, 8, 8], "output": "sigmoid"}
    again = Pretrained.load(out)
    assert (again.spec, again.about) == (made.spec, made.about)
    assert torch.equal(again.vector, made.vector)
    assert files(out.parent) == {"digits.safetensors"}


@pytest.mark.parametrize("source", ["digits", "colour.npz"])
@pytest.mark.parametrize("stop", [1, 2])
def test_stopped_after_any_epoch_and_continued_is_never_stopped(source, stop, tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    pretrain(source, whole, **QUICK)

    def interrupt(epoch, epochs, error):
        if epoch == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain(source, stopped, on_epoch=interrupt, **QUICK)
    assert Pretrained.load(stopped).about["epochs"] == stop
    pretrain(source, stopped, **QUICK)
    assert stopped.read_bytes() == whole.read_bytes()


def test_equal_seeds_give_equal_bytes_and_leave_the_global_generator_alone(tmp_path):
    before = torch.get_rng_state()
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        pretrain("digits", tmp_path / name, **QUICK | {"seed": seed})
    assert torch.equal(torch.get_rng_state(), before)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert not torch.equal(Pretrained.load(tmp_path / "a").vector, Pretrained.load(tmp_path / "c").vector)


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 6}, {"samples": 50}, {"samples": None},
        {"source": "wine"}, {"name": "conv-autoencoder"},
    ],
    ids=str,
)  # fmt: skip
def test_another_way_of_training_is_refused(other, out):
    pretrain("digits", out, **QUICK)
    before = out.read_bytes()
    with pytest.raises(FedkinError) as refused:
        pretrain(**{"source": "digits", "path": out, **QUICK, **other})
    assert str(refused.value) == f"'{out}' holds an encoder that was trained otherwise; give another --out."
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"source": "nowhere.csv"}, "'nowhere.csv' does not exist; "),
        ({"name": "autoencoder"}, "Unknown autoencoder 'autoencoder'; "),
        ({"source": "wine", "name": "conv-autoencoder"}, "The autoencoder 'conv-autoencoder' was asked for samples "),
        ({"label": "digit"}, "'digits' is embedded, with labels of its own; "),
    ],
    ids=str,
)
def test_bad_input_is_one_sentence_and_writes_nothing(options, sentence, out, tmp_path):
    before = files(tmp_path)
    with pytest.raises(FedkinError) as refused:
        pretrain(**{"source": "digits", "path": out, **QUICK, **options})
    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)
    assert files(tmp_path) == before
    assert not out.parent.exists()
