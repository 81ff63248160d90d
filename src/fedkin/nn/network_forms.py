"""Payload schemas of networks and their training, checked by `fedkin.core.replies`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fedkin.core.replies import (
    MAX_CLASSES,
    Expected,
    ListOf,
    Nullable,
    counts_to,
    is_list,
    is_name,
    is_shape,
    objection,
    one_of,
    positive,
    updates,
    within,
)

MANY = 2**31
"""Greatest count that a payload may contain."""
OUTPUT = one_of("sigmoid", "linear")
_UNITS = counts_to(2**16)
WIDTHS = is_list(_UNITS)
"""Widths of an autoencoder's layers."""

CLASSIFIER: Expected = {"name": is_name, "shape": is_shape, "classes": counts_to(MAX_CLASSES)}
ENCODER: Expected = {"name": is_name, "shape": is_shape, "output": OUTPUT}
DEEP_ENCODER: Expected = {"shape": is_shape, "output": OUTPUT, "code": _UNITS}
FLOW: Expected = {"shape": is_shape, "width": _UNITS, "depth": counts_to(100), "couplings": counts_to(1000)}
BLUEPRINT: Expected = {
    "shape": is_shape, "output": OUTPUT, "noise": _UNITS, "kinds": _UNITS, "capacity": within(1e-6, 100),
}  # fmt: skip
DESIGN: Expected = {
    "shape": is_shape, "backbone": one_of("auto", "convolutions", "resnet18", "perceptron"), "latent": _UNITS,
    "projector_units": _UNITS, "predictor_units": _UNITS,
}  # fmt: skip
DESCENT: Expected = {
    "epochs": counts_to(MANY, 0), "steps": Nullable(counts_to(MANY, 0)), "batch_size": counts_to(MANY),
    "optimizer": one_of("sgd", "adam"), "learning_rate": positive, "momentum": within(0, 1),
    "weight_decay": within(0), "proximal": within(0),
}  # fmt: skip
STACK_TRAINING: Expected = {
    "epochs": counts_to(MANY, 0), "min_steps": counts_to(MANY, 0), "batch_size": counts_to(MANY),
    "learning_rate": positive,
}  # fmt: skip
CONTRASTIVE_TRAINING: Expected = {
    "local_epochs": counts_to(MANY), "batch_size": counts_to(MANY), "learning_rate": positive,
    "model_weight": within(0), "decorrelation": within(0), "form": one_of("paper", "code"),
    "views": one_of("affine", "pillow"),
}  # fmt: skip


def are_models(value: Any) -> bool:
    """Whether `value` is a tensor of models ``(m, size)``, or a list with one tensor per model."""
    form = updates(None, "size") if isinstance(value, Tensor) else ListOf(updates("size"))
    return objection({"models": value}, {"models": form}) is None
