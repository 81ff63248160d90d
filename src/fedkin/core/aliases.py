"""What options and arguments of other libraries are called here: one table for all doors.

Command line, experiment files, `fit`, `compare` and Flower strategies look an unknown word up among the names that they
have, before they look for one that is spelled alike.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from fedkin.core.errors import hint, nearest

_F = TypeVar("_F", bound=Callable[..., Any])

ALIASES: dict[str, tuple[str, ...]] = {
    # training, as scikit-learn, PyTorch and papers write it
    **dict.fromkeys(("lr", "eta"), ("learning_rate",)),
    **dict.fromkeys(("epochs", "n_epochs", "E"), ("local_epochs",)),
    **dict.fromkeys(("criterion", "loss_fn"), ("loss",)),
    **dict.fromkeys(("scheduler", "lr_scheduler", "lr_schedule", "schedule"), ("lr_scheduler", "learning_rates")),
    **dict.fromkeys(("transform", "transforms", "augment", "augmentation"), ("augmentation", "recipe")),
    **dict.fromkeys(("model", "net", "network"), ("module",)),
    "optim": ("optimizer",),
    "mu": ("proximal",),
    # clusters, rounds and clients
    **dict.fromkeys(("k", "K", "num_clusters", "clusters"), ("n_clusters",)),
    **dict.fromkeys(("num_rounds", "n_rounds", "global_rounds", "max_iter"), ("rounds", "num_rounds")),
    **dict.fromkeys(
        (
            "fraction_fit", "fraction_train", "client_fraction", "sample_fraction", "join_ratio", "clients_per_round",
            "participation",
        ),
        ("participation", "fraction_train"),
    ),
    "min_fit_clients": ("min_train_nodes",),
    "min_evaluate_clients": ("min_evaluate_nodes",),
    "min_available_clients": ("min_available_nodes",),
    "fit_metrics_aggregation_fn": ("train_metrics_aggr_fn",),
    "evaluate_metrics_aggregation_fn": ("evaluate_metrics_aggr_fn",),
    # seeds, time and devices
    **dict.fromkeys(("seed", "random_state"), ("random_state", "seed")),
    "time": ("budget",),
    # labels, held-out samples and metrics
    **dict.fromkeys(("label", "labels", "target"), ("label", "y")),
    **dict.fromkeys(("val", "valid", "val_set", "dev", "validation_data"), ("validation",)),
    **dict.fromkeys(("test", "test_set", "eval_set", "test_data"), ("eval",)),
    "callback": ("callbacks",),
}  # fmt: skip
"""Words of other libraries, and fedkin's for the same, of which a door has one."""


def meant_by(word: str, names: Collection[str]) -> str | None:
    """Return the one of `names` that a word of another library stands for, or else the nearest; ``None`` if none is.

    Names may be paths such as ``"method.module"``, of which the last part counts.
    """
    ends = {name.rpartition(".")[2]: name for name in sorted(names)}
    aliases = (ends[alias] for alias in ALIASES.get(word, ()) if alias in ends and alias != word)
    return next(aliases, None) or nearest(word, names)


_DONE_OTHERWISE = dict.fromkeys(
    ("groups", "group", "by", "client_column"), "give clients as table.groupby('hospital'), divided by a column."
) | dict.fromkeys(("names", "client_names"), "give clients in a dict by name.")
"""What is done without an argument."""


def checked_keywords(function: _F) -> _F:
    """Decorate a function so that an unknown keyword raises a `TypeError` that names the nearest known one."""
    parameters = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        for name in keywords:
            if name not in parameters:
                if name in _DONE_OTHERWISE and "eval" in parameters:
                    raise TypeError(f"{function.__name__} has no argument '{name}'; {_DONE_OTHERWISE[name]}")
                near = meant_by(name, parameters)
                elsewhere = (
                    f"; options of methods are settings={{'method.{name}': ...}}" if "settings" in parameters else ""
                )
                end = hint(near, f"it takes {', '.join(parameters)}{elsewhere}")
                raise TypeError(f"{function.__name__} has no argument '{name}'; {end}")
        return function(*arguments, **keywords)

    return called  # type: ignore[return-value]
