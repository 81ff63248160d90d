import pytest

from fedkin.experiment.terminal import Bar, Quiet

LINE = {
    "step": 3,
    "answered": [0],
    "missing": {"1": "no reply", "4": "no reply"},
    "values": {"clusters": 4, "accuracy": 0.1, "cut": None, "sizes": [1, 2]},
    "metrics": {"accuracy": 0.98765},
    "sent": 1_234_567,
    "received": 5_000_000_000_000,
}


def test_the_bar_shows_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar() as bar:
        bar.phase("Step 3")
        bar.part(1, 2)
        assert (bar.display.tasks[0].completed, bar.display.tasks[0].total) == (1, 2)
        bar.step(LINE, {"seconds": 2.51})
    shown = capsys.readouterr()
    assert "Step 3 · 2.5 s · Clusters found 4 · Local accuracy 0.988\n" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("progress", [Bar, Quiet])
def test_warnings_are_shown_whether_or_not_anybody_watches(
    progress: type[Bar | Quiet], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress() as shows:
        shows.warn("[MLflow] is gone.")
    shown = capsys.readouterr()
    assert "fedkin: [MLflow] is gone.\n" in shown.err
    assert shown.out == ""
