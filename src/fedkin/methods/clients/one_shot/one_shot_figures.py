"""What a run's page shows of clusters of clients that were formed of one message each: how, and how private it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.privacy.accounting import MEANINGFUL_EPSILON
from fedkin.report.figures import Bars, Text
from fedkin.report.numbers import pluralize


def one_shot_figures(records: Sequence[Mapping[str, Any]]) -> list[Text | Bars]:
    """Explain how clusters were found and how private that was, with a bar chart of the criterion.

    The value ``clustering`` is a mapping with any of ``mode``; for messages of bits ``bits``, ``flip`` (a probability,
    or one for each client), ``epsilon_bit`` and ``epsilon`` (``None`` where infinite); for messages of sums
    ``numbers``, ``epsilon`` and ``delta``; and the greatest merge ``heights`` of a dendrogram and its ``cut``, or
    ``silhouettes`` by number of clusters.
    """
    for record in records:
        if isinstance(values := record["values"].get("clustering"), Mapping):
            sentences = [_result(record, values), *([_privacy(values)] if values else [])]
            return [Text(sentences), *_bars(record["values"]["clusters"], values)]
    return []


def _result(record: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Describe what clients sent, and the number of clusters found in it."""
    message = "one message each"
    if "bits" in values:
        flips = _flips(values)
        often = f"probability {flips[0]:.3g}" + (f" to {flips[-1]:.3g}" if len(flips) > 1 else "")
        message = f"{values['bits']:,} bits each, every bit flipped with {often}"
    elif "numbers" in values:
        message = f"{values['numbers']:,} numbers each, sums with noise"
    result = pluralize(record["values"]["clusters"], "cluster")
    if not values.get("separable", True):
        result = "nothing to separate, one cluster" if values.get("heights") else "too few clients for two clusters"
    return f"In step {record['step']}, {pluralize(len(record['answered']), 'client')} sent {message}: {result}."


def _flips(values: Mapping[str, Any]) -> list[float]:
    """Return the clients' probabilities of a flip, in ascending order."""
    return [values["flip"]] if isinstance(values["flip"], int | float) else sorted(values["flip"])


def _privacy(values: Mapping[str, Any]) -> str:
    """Describe the privacy guarantee of the messages in plain words."""
    if "epsilon" not in values or ("bits" in values and not _flips(values)[0]):
        who = " of some clients" if "bits" in values and len(_flips(values)) > 1 else ""
        return f"Messages{who} were sent without noise, with no privacy guarantee; see docs/privacy.md."
    if "delta" in values:
        unit, budget = "one sample", f"epsilon {_short(values['epsilon'])} and delta {values['delta']:g}"
        budget += " for one sample, not for a client as a whole"
    else:
        unit = "a whole message"
        budget = f"epsilon {_short(values['epsilon'])} for a whole message, {_short(values['epsilon_bit'])} for one bit"
        budget += ", for the clients with the lowest probability" if len(_flips(values)) > 1 else ""
    if values["epsilon"] > MEANINGFUL_EPSILON:
        budget = f"no meaningful guarantee for {unit} ({budget})"
    simulated = values.get("noise_source") == "the run's seed"
    return (
        f"Privacy: {budget}. It covers these messages alone, not the models that clients train."
        + " Clients were simulated: noise follows from the run's seed, and hides nothing from who knows it." * simulated
        + " See docs/privacy.md."
    )


def _short(epsilon: float) -> str:
    """Format an epsilon with at most three significant digits and no exponent."""
    return f"{epsilon:,.0f}" if epsilon >= 100 else f"{epsilon:.2g}" if epsilon >= 1 else f"{epsilon:.3g}"


def _bars(clusters: int, values: Mapping[str, Any]) -> list[Bars]:
    """Draw the merge heights of a dendrogram, or silhouettes by the number of clusters."""
    heights, scores = values.get("heights"), values.get("silhouettes", {})
    if heights and "cut" in values:
        cut = values["cut"]
        undone = [cut is not None and height >= cut for height in heights]
        caption = (
            "Starting from single clients, the two most similar clusters were merged again and again (Ward's method); "
            "the height of a merge is how far they differ. "
        )
        caption += (
            "No merge stands out, so there is one cluster." if cut is None else "Merges above the cut were undone."
        )
        if cut is not None and sum(undone) != clusters - 1:
            caption += " Some separate fewer clients than a cluster must have; these joined the nearest cluster."
        ranks, name = [str(rank + 1) for rank in range(len(heights))], "" if cut is None else f"cut at {cut:.3g}"
        return [Bars("Merge heights", caption, ranks, heights, undone, "merge, highest first", cut, name)]
    if len(scores) > 1:
        counts = sorted(scores, key=int)
        best = max(counts, key=scores.__getitem__)
        caption = (
            "Mean silhouette of the clients for each number of clusters tried: 1 is well separated, 0 is not. The "
            f"highest was chosen, {best} clusters."
        )
        strong = [count == best for count in counts]
        return [Bars("Silhouette", caption, counts, [scores[count] for count in counts], strong, "clusters")]
    return []
