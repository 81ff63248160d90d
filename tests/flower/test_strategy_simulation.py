"""The strategies in Flower's own simulation, with Ray's processes and Flower's own loop around the client app."""

import gc
import warnings
from typing import Any

import pytest
import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from safetensors.torch import load_file

import app_nodes
from app_runs import CLUSTERS, network, sites
from fedkin import flower


@pytest.mark.slow
def test_a_simulation_finds_the_clusters_and_models_of_nodes_in_this_process(tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "flwr"))
    results: dict[str, Any] = {}
    clients = sites(CLUSTERS)
    app = app_nodes.client_app(clients, network)
    app.query("fedkin")(flower.report_name)

    def run(grid: Grid) -> dict[str, Any]:
        strategies = {"ocfl": flower.OCFLStrategy(names=True), "ifca": flower.IFCAStrategy(n_clusters=2, names=True)}
        arguments = {"initial_arrays": app_nodes.arrays(network), "num_rounds": 5, "train_config": app_nodes.START}
        return {name: strategy.start(grid=grid, **arguments) for name, strategy in strategies.items()}

    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        results.update(run(grid))

    config = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 1}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Ray and Flower think of each other
        from flwr.simulation import run_simulation

        run_simulation(server, app, num_supernodes=len(clients), backend_config=config)
        gc.collect()  # Ray leaves files open
    for name, expected in run(app_nodes.Fleet(app, len(clients))).items():
        assert results[name].clusters == expected.clusters
        results[name].save(tmp_path / name)
        for cluster, arrays in enumerate(expected.arrays_by_cluster):
            saved = load_file(tmp_path / name / f"cluster-{cluster}.safetensors")
            for key, array in arrays.items():
                assert torch.allclose(saved[key], torch.from_numpy(array.numpy()), atol=1e-5)
