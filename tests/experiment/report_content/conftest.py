"""What the tests of views share."""

import pytest

from fedkin.experiment.config import Config, load_config


@pytest.fixture
def config(toy: None) -> Config:
    return load_config("toy", ["scenario.name=toy"])
