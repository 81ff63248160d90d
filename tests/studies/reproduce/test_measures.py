import json
from pathlib import Path

import pytest

from fedkin.core import FedkinError
from fedkin.studies.reproduce.measures import FinishedRun, check, measured


@pytest.fixture
def run(tmp_path: Path) -> FinishedRun:
    """Four steps: agreement from the second on, accuracy in the second and the last."""
    metrics = [{}, {"ari": 0.5, "personal_accuracy": 0.8, "kappas": [0.1, None]}, {"ari": 0.25},
               {"ari": 1.0, "personal_accuracy": 0.9, "kappas": [0.3, 0.7]}]  # fmt: skip
    lines = [
        {
            "step": i + 1,
            "values": {"clusters": i, "finished": True},
            "metrics": m,
            "sent": 1e6 * (i + 1),
            "received": 5e5,
        }
        for i, m in enumerate(metrics)
    ]
    times = [{"step": i, "seconds": 2.0, "client_seconds": 1.0} for i in range(5)]
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "result.json").write_text("{}")
    for name, found in (("records", lines), ("timing", times)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in found))
    return FinishedRun(tmp_path)


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        ("ari", 1.0), ("ari@last", 1.0), ("ari@first", 0.5), ("ari@mean", 0.4375), ("ari@best", 1.0),
        ("ari@gain", 0.5), ("ari@last5", 1.75 / 3), ("ari@3", 0.25), ("ari@1", None), ("ari@40", 1.0),
        ("personal_accuracy@3", 0.8), ("clusters", 3.0), ("finished", None), ("kappas[1]", 0.7), ("kappas[2]", None),
        ("kappas[1]@first", 0.7), ("nothing", None), ("steps", 4.0), ("sent_mb", 4.0), ("both_mb", 4.5),
        ("seconds", 10.0), ("client_seconds", 5.0), ("rounds_to:personal_accuracy=0.85", 4.0),
        ("rounds_to:personal_accuracy=0.95", None), ("mb_to:personal_accuracy=0.8", 2.5),
        ("client_seconds_to:personal_accuracy=0.8", 3.0),
    ],
)  # fmt: skip
def test_what_is_read_off_a_run(run: FinishedRun, measure: str, value: float | None) -> None:
    assert measured(run, measure) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("measure", "sentence"),
    [
        ("ari@end", "Unknown moment in 'ari@end': 'end'; allowed: "),
        ("seconds@5", "'seconds@5' names a moment, but 'seconds' is what the whole run cost; leave @5 out"),
        ("sent_mb@mean", "leave @mean out"),
        ("ari-x", "'ari-x' is not the name of a number"),
        ("round_to:ari=1", "did you mean 'rounds_to'"),
        ("rounds_to:ari", "'rounds_to:ari' should name a number to reach"),
        ("rounds_to:ari=much", "should name a number to reach"),
        ("kn/3", "Unknown probe 'kn'; did you mean 'knn'"),
    ],
)
def test_what_is_no_measure_is_refused(run: FinishedRun, measure: str, sentence: str) -> None:
    with pytest.raises(FedkinError, match=sentence):
        check(measure)
    with pytest.raises(FedkinError, match=sentence):
        measured(run, measure)
