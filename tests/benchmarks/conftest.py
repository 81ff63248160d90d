"""Scripts of the folder `benchmarks`, which is no package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The script that the test file is named after, run as a module, and able to import its neighbours."""
    script = FOLDER / request.path.name.removeprefix("test_")
    spec = importlib.util.spec_from_file_location(f"{script.stem}_benchmark", script)
    assert spec is not None
    assert spec.loader is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up
        spec.loader.exec_module(module)
        yield module
