"""Names of parameters and attributes in other libraries, for error messages that suggest fedkin's own."""

from __future__ import annotations

PARAMETERS = {
    "lr": "learning_rate", "model": "module", "net": "module", "network": "module", "criterion": "loss",
    "loss_fn": "loss", "epochs": "local_epochs", "n_epochs": "local_epochs", "seed": "random_state", "k": "n_clusters",
    "num_clusters": "n_clusters", "num_rounds": "rounds", "global_rounds": "rounds", "fraction_fit": "participation",
    "join_ratio": "participation", "scheduler": "lr_scheduler", "transform": "augmentation", "mu": "proximal",
    "optim": "optimizer", "max_iter": "rounds", "client_fraction": "participation", "fraction_train": "participation",
    "sample_fraction": "participation", "clients_per_round": "participation", "n_rounds": "rounds",
}  # fmt: skip
"""What a parameter is called elsewhere."""

OF_FIT = ("callbacks", "metrics", "eval", "validation")
"""Arguments of ``fit`` that other libraries take as parameters."""

ELSEWHERE = {
    "collate_fn": "give clients as DataLoaders, whose own is used.",
    "n_jobs": "fit uses the cores that it has; torch.set_num_threads(n) says how many.",
    "client_names": "give fit the clients in a dict by name.",
    **dict.fromkeys(
        ("decimal", "encoding", "na_values", "sep"), "read files by pandas.read_csv, which has it, and give DataFrames."
    ),
    "dayfirst": "convert dates by pandas.to_datetime, which has it, and give DataFrames.",
    **dict.fromkeys(
        ("sheet", "sheet_name"), "read files by pandas.read_excel, which has sheet_name, and give DataFrames."
    ),
}
"""What is done in another place."""

_SAVED = "pickle.dump(model, file) or joblib.dump(model, path) saves a fitted estimator"
_CENTRES = (
    "describe() says what distinguishes clusters, and result_['centroids'] has the centres, as prepared, of methods "
    "that have them"
)
_TABLE = "metrics_ is a DataFrame of every number"

ATTRIBUTES = {
    "save": _SAVED,
    "to_pickle": _SAVED,
    "cluster_centers_": _CENTRES,
    "centers_": _CENTRES,
    "centroids_": _CENTRES,
    "inertia_": _TABLE,
    "cluster_sizes_": "metrics_ has the sizes of clusters",
    "summary": "describe() says of clusters of samples what distinguishes them, and metrics_ has every number",
    "report": "plot() draws the fit, and the command `fedkin run` writes a report",
    "to_frame": f"{_TABLE}, and labels_ has an array for each client",
    "model_": "models_ has one model for each cluster",
    "transform": "predict gives clusters, and result_ has what the method found",
    "partial_fit": "fit starts anew, and predict finds the clusters of more samples",
    "evaluate": "score(clients) measures, and fit takes eval=",
}
"""What the attribute of another library is here, as the end of a sentence; see also `ATTRIBUTES_OF_CLIENTS`."""

ATTRIBUTES_OF_CLIENTS = ATTRIBUTES | {
    "partial_fit": "fit starts anew, and assign(x, y) finds the cluster of one more client",
    "labels_": "client_labels_ has the cluster of each client, and clusters_ the same by name",
    "fit_predict": "fit(clients).client_labels_ are the clients' clusters, and predict gives the classes of samples",
    "transform": "predict gives the classes of samples, and preparation_.apply(x) what models_ take",
    "fit_transform": "fit finds the clusters, and preparation_.apply(x) gives what models_ take",
    "to_frame": f"{_TABLE}, and clusters_ has the cluster of each client by name",
    "summary": "plot() draws the fit, and metrics_ has every number",
    "describe": "plot() draws the fit, and models_ has a model for each cluster",
    **dict.fromkeys(("cluster_centers_", "centers_", "centroids_"), "models_ has a model for each cluster"),
}
"""The same for estimators that cluster clients."""
