"""Runs as TensorBoard gets them, and that tracking changes nothing."""

from pathlib import Path

import pytest

from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute, resume
from toy_runs import OPTIONS, files

pytestmark = pytest.mark.usefixtures("toy")
DIFFERENT = ("config.toml", "SHA256SUMS", "report.html")
"""Files that say how a run was tracked."""


def test_tensorboard_has_every_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = load_config("toy", [*OPTIONS, "evaluation.tensorboard=true"])
    with monkeypatch.context() as patch:
        patch.setenv("TOY_INTERRUPT", "2")
        with pytest.raises(KeyboardInterrupt):
            execute(config, tmp_path / "run")
    outcome = resume(tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {
        "values/first", "clients/answered", "clients/missing", "traffic/sent_bytes", "traffic/received_bytes",
        "time/seconds", "time/client_seconds",
    }  # fmt: skip
    scalars = [(event.step, event.value) for event in events.Scalars("traffic/sent_bytes")]
    assert scalars == [(line["step"], line["sent"]) for line in outcome.records]
    assert b'name = "toy"' in events.Tensors("experiment/text_summary")[0].tensor_proto.string_val[0]
    plain = files(execute(load_config("toy", OPTIONS), tmp_path / "plain").folder)
    tracked = {name: content for name, content in files(tmp_path / "run").items() if "tfevents" not in name}
    assert {name for name in plain.keys() | tracked if plain.get(name) != tracked.get(name)} == set(DIFFERENT)
