"""Outlines of methods and scenarios, read from their source, declare what the classes do."""

import subprocess
import sys

import pytest

from fedkin.core.options import options_of
from fedkin.experiment import registry
from fedkin.experiment.config import model_of
from fedkin.experiment.sections import SimulationSection


@pytest.mark.parametrize("kind", ["method", "scenario"])
def test_outlines_declare_what_the_classes_do(kind: registry.Kind) -> None:
    for name in registry.METHODS if kind == "method" else registry.SCENARIOS:
        declared, real = registry.declared(kind, name), registry.resolve(kind, name)
        assert declared is not real
        assert options_of(declared) == options_of(real), name
        models = [model_of(made, *([SimulationSection] if kind == "scenario" else [])) for made in (declared, real)]
        assert models[0].model_json_schema() == models[1].model_json_schema(), name
        assert getattr(declared, "traits", None) == getattr(real, "traits", None), name


def test_no_outline_imports_torch() -> None:
    program = """
import sys
from fedkin.experiment import registry
from fedkin.experiment.config import model_of
from fedkin.experiment.sections import SimulationSection
for kind, names in (("method", registry.METHODS), ("scenario", registry.SCENARIOS)):
    for name in names:
        registry.declared(kind, name)
print([name for name in sys.modules if name == "torch" or name.startswith("fedkin.methods")])
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
