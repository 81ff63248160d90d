"""Messages of embedding by kind: what was measured is not measured again, and the table has mean and spread."""

import json
from pathlib import Path
from types import ModuleType

import pytest

WAYS = ["exact", "halves", "sums-1000", "client-1000000"]


def call(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, what: str, file: Path, *more: str) -> None:
    monkeypatch.setattr("sys.argv", ["embedding_messages.py", what, str(file), *more])
    benchmark.main()


def test_every_way_is_measured_once_and_shown(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark.encoders, "_FACTORIES", dict(benchmark.encoders._FACTORIES))
    monkeypatch.setattr(benchmark.EmbeddingMethod, "pretraining", 0)
    file = tmp_path / "messages.jsonl"
    options = ["--scenarios", "rotation-8-60", "--ways", *WAYS, "--seeds", "0", "--width", "8"]
    call(benchmark, monkeypatch, "run", file, *options)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["way"] for line in lines] == WAYS
    scores = {line["way"]: line["ari"] for line in lines}
    assert scores["sums-1000"] == scores["client-1000000"] == 1.0  # hardly any noise
    known = {"data": "digits", "encoder": None, "width": 8, "scenario": "rotation-8-60", "seed": 1, "way": "sums-1000"}
    with file.open("a") as more:
        more.write(json.dumps(known | {"ari": 0.0, "found": 1}) + "\n")
    call(benchmark, monkeypatch, "run", file, *options[:-3], "0", "1", "--width", "8", "--ways", "sums-1000")
    assert len(file.read_text().splitlines()) == len(WAYS) + 1
    call(benchmark, monkeypatch, "show", file)
    row = f"| digits, 8 | rotation-8-60 | {scores['exact']:.2f} ± 0.00 (1) | {scores['halves']:.2f} ± 0.00 (2) | "
    assert f"{row}0.50 ± 0.50 (1-4) | 1.00 ± 0.00 (4) |" in capsys.readouterr().out


def test_an_encoder_of_another_width_is_trained(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(benchmark.encoders, "_FACTORIES", dict(benchmark.encoders._FACTORIES))
    call(benchmark, monkeypatch, "pretrain", tmp_path / "five.safetensors", "--width", "5", "--epochs", "1")
    made = benchmark.encoders.Pretrained.load(tmp_path / "five.safetensors")
    assert benchmark.Encoder.of(made.spec).width == 5
