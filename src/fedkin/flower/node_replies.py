"""Checks of a client app's replies: each returns the content, or a sentence on why it is unusable."""

from __future__ import annotations

import math

from flwr.app import MetricRecord, RecordDict
from torch import Tensor

from fedkin.flower.array_layout import ArrayLayout


def trained_model(reply: RecordDict, layout: ArrayLayout) -> Tensor | str:
    """Return the trained model ``(size,)`` of a reply, or why it is unusable."""
    records = list(reply.array_records.values())
    if len(records) != 1:
        return f"its training replied with {len(records)} ArrayRecords instead of one"
    model = layout.vector(records[0])
    return f"in its training's reply, {model}" if isinstance(model, str) else model


def weighted_metrics(reply: RecordDict, key: str) -> MetricRecord | str:
    """Return the metrics of a reply, with the weight named `key` among them, or why they are unusable."""
    records = list(reply.metric_records.values())
    if len(records) != 1:
        return f"its reply has {len(records)} MetricRecords instead of one"
    weight = records[0].get(key)
    if not isinstance(weight, int | float) or not 0 < weight < math.inf:
        what = f"is {weight}" if key in records[0] else "is absent"
        return f"'{key}' {what} in its metrics; it should be a number above 0"
    return records[0]
