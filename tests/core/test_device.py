import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import forked
from fedkin.core.device import device, on

TESTS = Path(__file__).parents[1]
CPU, META = torch.device("cpu"), torch.device("meta")


def test_a_device_is_named_for_a_while() -> None:
    assert device() == CPU
    with on(META):
        assert device() == META
        with on(CPU):
            assert device() == CPU
        assert device() == META
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(device).result() == CPU
    with pytest.raises(ZeroDivisionError), on(META):
        raise ZeroDivisionError
    assert device() == CPU


@pytest.fixture
def torch_as_it_was() -> Iterator[None]:
    """Put torch's settings of the whole process back."""
    precision, tf32 = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = tf32


@pytest.mark.usefixtures("torch_as_it_was")
def test_cuda_computes_the_same_each_time_and_rounds_as_it_is_asked() -> None:
    with on(META):
        assert not torch.are_deterministic_algorithms_enabled()
    for precision in ("high", "highest"):
        torch.set_float32_matmul_precision(precision)
        with on(torch.device("cuda")):
            assert torch.are_deterministic_algorithms_enabled()
            assert torch.backends.cudnn.allow_tf32 == (precision == "high")


def test_the_process_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where threads end their contexts in another order than they began them."""
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)

    def settings() -> tuple[object, ...]:
        return (
            torch.are_deterministic_algorithms_enabled(),
            torch.utils.deterministic.fill_uninitialized_memory,
            torch.get_float32_matmul_precision(),
            torch.backends.cudnn.allow_tf32,
            os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
        )

    before = settings()
    first, second = on(torch.device("cuda")), on(torch.device("cuda"))
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        one.submit(first.__enter__).result()
        other.submit(second.__enter__).result()
        one.submit(first.__exit__, None, None, None).result()
        assert torch.are_deterministic_algorithms_enabled()
        other.submit(second.__exit__, None, None, None).result()
    assert settings() == before


@pytest.mark.long
def test_training_on_a_device(tmp_path: Path) -> None:
    """In a process of its own, for the device that is made up there would be seen by all tests."""
    files = "on_elsewhere.py", "networks_on_elsewhere.py"
    code, printed, errors = forked.Program(TESTS, tmp_path / "log", forked.run_tests, *files).ended(1200)
    assert code == 0, printed + errors
