"""What many clients cost, at a small size."""

import numpy as np
import pytest


@pytest.mark.parametrize("name", ["plain", "kfed", "fedavg"])
def test_a_run_on_one_array_is_measured(benchmark, tmp_path, name):
    benchmark.write_rows(tmp_path / "rows.npy", 20)
    line = benchmark.measure(name, tmp_path / "rows.npy", 20, singles=False)
    assert line["clients"] == 20
    assert line["cpu_us_per_client"] > 0


def test_a_hidden_sum_survives_a_third_of_its_devices_and_no_more(benchmark):
    rng = np.random.default_rng(0)
    assert benchmark.recovered(64_000, 1.0, rng) == 1.0
    assert benchmark.recovered(64_000, 0.6, rng) == 0.0
    assert 0.6 < benchmark.recovered(640_000, 0.9, rng) < 0.8
