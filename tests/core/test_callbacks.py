import pytest

from fedkin.core.runner import Callback, run_with_callbacks


class Diary(Callback):
    """Writes down its calls, and fails at `fails`."""

    def __init__(self, name: str, calls: list[tuple], fails: str = "") -> None:
        self.name, self.calls, self.fails = name, calls, fails

    def begin(self) -> None:
        self.calls.append((self.name, "begin"))
        if self.fails == "begin":
            raise KeyError

    def warn(self, text: str) -> None:
        self.calls.append((self.name, text))

    def end(self, status: str) -> None:
        self.calls.append((self.name, status))


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt, "interrupted"), (OSError, "failed")])
def test_callbacks_end_with_what_happened(error: type[BaseException], status: str) -> None:
    calls: list[tuple] = []
    with run_with_callbacks(Diary("a", calls)):
        pass
    with pytest.raises(error), run_with_callbacks(Diary("a", calls)):
        raise error
    assert calls == [("a", "begin"), ("a", "finished"), ("a", "begin"), ("a", status)]
