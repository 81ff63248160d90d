import re
import sys

import pytest

from fedkin.experiment.terminal import Bar, Quiet
from fedkin.experiment.terminal_tables import print_table, sentence_text

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


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_terminals_lines_fit_and_nothing_is_cut(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [["kfed, 3 clusters", *(f"0.{at}51 ± 0.0{at}3" for at in range(7)), "a centralised baseline"]] * 2
    print_table(rows, ["Method", *(f"Measure {at}" for at in range(7)), "Remark"], left=(0, 8))
    print(
        sentence_text("Cluster 0 (94 samples): low flavanoids (0.79 against 2.02), low hue, clients north and south.")
    )
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    words = " ".join(shown.split())
    assert [cell for cell in rows[0] if cell not in words] == []
