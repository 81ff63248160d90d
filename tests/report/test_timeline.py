from __future__ import annotations

import pytest

from fedkin.core.errors import FedkinError
from fedkin.report import Curve


def test_a_series_must_be_as_long_as_its_steps() -> None:
    with pytest.raises(FedkinError, match="Series 'ACC' of curve 'Accuracy' has 1 values for 2 steps"):
        Curve("Accuracy", "", [0, 1], {"ACC": [1.0]})
