"""Outlines of methods and scenarios, read from their source, declare what the classes do."""

import subprocess
import sys

import pytest

from fedkin.core.errors import FedkinError
from fedkin.core.options import options_of
from fedkin.experiment import registry
from fedkin.experiment.config import load_config
from fedkin.experiment.option_models import model_of


@pytest.mark.parametrize("kind", ["method", "scenario"])
def test_outlines_declare_what_the_classes_do(kind: registry.Kind) -> None:
    for name in registry.METHODS if kind == "method" else registry.SCENARIOS:
        declared, real = registry.declared(kind, name), registry.resolve(kind, name)
        assert declared is not real
        assert options_of(declared) == options_of(real), name
        assert model_of(declared, name).model_json_schema() == model_of(real, name).model_json_schema(), name
        assert getattr(declared, "traits", None) == getattr(real, "traits", None), name


def test_no_outline_imports_torch() -> None:
    program = """
import sys
from fedkin.experiment import registry
for kind, names in (("method", registry.METHODS), ("scenario", registry.SCENARIOS)):
    for name in names:
        registry.declared(kind, name)
print([name for name in sys.modules if name == "torch" or name.startswith("fedkin.methods")])
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_option_that_no_class_declares_is_refused_without_parsing_them_all() -> None:
    """Parsing the modules of all methods takes a fifth of a second."""
    registry._bindings.cache_clear()
    registry.outline.cache_clear()
    with pytest.raises(FedkinError, match="nosuch"):
        load_config("kfed", ["method.nosuch=1"])
    assert registry._bindings.cache_info().currsize < len(registry.METHODS)
    assert registry.is_declared("n_clusters")
