import io

import pytest

from fedkin.studies.run_worker import SentProgress


def test_a_warning_that_every_run_gives_is_seen_once(capsys: pytest.CaptureFixture[str]) -> None:
    messages = io.StringIO()
    progress = SentProgress(messages)
    for _ in range(3):
        progress.warn("Column 'id' is left out.")
    progress.warn("Column 'key' is left out.")
    assert capsys.readouterr().err == "Column 'id' is left out.\nColumn 'key' is left out.\n"
    assert messages.getvalue() == ""  # the parent reads messages, and knows none of this name
