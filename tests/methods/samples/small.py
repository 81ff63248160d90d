"""Options with which each method that clusters samples runs in a moment."""

from typing import Any

SMALL: dict[str, dict[str, Any]] = {
    "uifca": {"n_clusters": 3, "cluster_rounds": 2, "rounds": 2, "local_steps": 3, "width": 8, "depth": 1},
    "dec": {"n_clusters": 3, "hidden": (16,), "code": 3, "pretrain_steps": 20, "restarts": 2, "max_refreshes": 3},
    "sda-fc": {"n_clusters": 3, "epochs": 2, "min_steps": 2, "noise": 4, "capacity": 0.1},
    "ppfc-gan": {
        "n_clusters": 3,
        "epochs": 2,
        "min_steps": 2,
        "noise": 4,
        "capacity": 0.1,
        "pretrain_epochs": 2,
        "cluster_epochs": 1,
    },
    "mufc": {"n_clusters": 3, "local_clusters": 3},
    "afcl": {"seeds": 4, "rounds": 4, "members": 2, "learning_rate": 0.05},
    "feddp-kmeans": {"n_clusters": 3, "epsilon": 50.0, "rounds": 2},
    "kfed": {"n_clusters": 3, "local_clusters": 2, "assign": "induced"},
    "ffcm": {"n_clusters": 3, "rounds": 2},
    "kmeans": {"n_clusters": 3, "n_init": 2},
    "fuzzy-cmeans": {"n_clusters": 3},
    "ccfc": {"n_clusters": 3, "pretrain_rounds": 2, "cluster_rounds": 2, "batch_size": 16, "latent": 8},
    "scfc": {"n_clusters": 3, "pretrain_rounds": 2, "batch_size": 16, "latent": 8},
    "kin-graph": {"min_members": 2, "neighbours": 4},
}
