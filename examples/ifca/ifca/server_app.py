"""The server: runs IFCA and prints the accuracy of every cluster."""

from __future__ import annotations

from statistics import fmean

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ifca.dataset import partition
from ifca.strategy import initial_arrays, strategy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the experiment of the run configuration."""
    run = context.run_config
    clusters, seed = int(run["n-clusters"]), int(run["seed"])
    (x, _), _ = partition(str(run["data"]), 4, 0, seed)
    result = strategy(clusters, seed).start(
        grid=grid,
        initial_arrays=initial_arrays(clusters, x[0].numel(), seed),
        num_rounds=int(run["num-server-rounds"]),
        folder=str(run["folder"]) or None,
    )
    last = max(result.evaluate_metrics_clientapp)
    print(f"accuracy {result.evaluate_metrics_clientapp[last]['eval_acc']:.3f} over all nodes")
    by_node = result.evaluate_metrics_by_node[last]
    for cluster in sorted({result.clusters[node] for node in by_node}):
        nodes = result.members(cluster)
        accuracy = fmean(float(by_node[node]["eval_acc"]) for node in nodes if node in by_node)
        print(f"cluster {cluster}: accuracy {accuracy:.3f}, nodes {nodes}")
