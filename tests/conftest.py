"""No test touches the network; tests on real data look below ``FEDKIN_DATA``."""

import gc
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

os.environ.update(
    {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # Ray's workers have low priority: beside other tests they would starve
    }
)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests are small, and a few run at once
sys.path.append(str(Path(__file__).parent))  # for toy.py

import pytest
from hypothesis import HealthCheck, settings

gc.disable()  # until all tests are collected, since what that makes stays
os.fsync = lambda handle: None  # it guards against a power cut, which no test has, and waits for the disk

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    with suppress(ImportError):  # Flower's typer asks click for names that are on their way out
        import typer  # noqa: F401

# Machines are shared: an example may have to wait.
settings.register_profile("fedkin", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fedkin")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors, for some tests wait for servers and clients in processes of their own."""
    return min(4, (os.cpu_count() or 1) + 1)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are called by their argument: those of an archive hold the time, and each worker would have its name."""
    return argname if isinstance(val, bytes | bytearray) else None


def pytest_collection_finish() -> None:
    """Look for garbage among the tests' own objects alone; modules and tests stay to the end."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def real() -> Callable[[str], Path]:
    """Tells the folder of a real data set by its name, or skips the test."""

    def folder(name: str) -> Path:
        found = Path(os.environ.get("FEDKIN_DATA") or os.devnull) / name
        if not found.is_dir():
            pytest.skip(f"FEDKIN_DATA names no folder with {name}")
        return found

    return folder


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets experiments name the method and the scenario of toy.py."""
    import toy
    from fedkin.experiment import registry

    monkeypatch.setitem(registry.METHODS, "toy", toy.METHOD)
    monkeypatch.setitem(registry.SCENARIOS, "toy", toy.SCENARIO)
