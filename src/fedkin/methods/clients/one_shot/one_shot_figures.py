"""What a run's page shows of clusters of clients that were formed of one message each: how, and how private it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.privacy.accounting import MEANINGFUL_EPSILON
from fedkin.report.figures import Bars, Text
from fedkin.report.numbers import pluralize

_RULES = {
    "gap": "where the next merge is much lower, and above what chance alone gives",
    "exact": "where clusters explain most variance, compared with what chance alone gives",
    "sums": "above the height that noise alone gives",
    "bayes": "where a search over some thresholds found the clusters most distinct",
}


def one_shot_figures(records: Sequence[Mapping[str, Any]]) -> list[Text | Bars]:
    """Explain how clusters were found and how private that was, with a bar chart of the criterion.

    The value ``clustering`` is a mapping with any of ``mode``; for messages of bits ``bits``, ``flip`` (a probability,
    or one for each client), ``epsilon_bit`` and ``epsilon`` (``None`` where infinite); for messages of sums
    ``numbers``, ``epsilon`` and ``delta``; and the greatest merge ``heights`` of a dendrogram and its ``cut``, or
    ``silhouettes`` by number of clusters.
    """
    for record in records:
        if isinstance(found := record["values"].get("clustering"), Mapping):
            return [Text([_found(record, found), *([_privacy(found)] if found else [])]), *_bars(record, found)]
    return []


def _found(record: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Describe what clients sent, and the number of clusters found in it."""
    sent = "one message each"
    if "bits" in found:
        sent = f"{found['bits']:,} bits each, {_flips(found['flip'])}"
    elif "numbers" in found:
        sent = f"{found['numbers']:,} numbers each, sums with noise"
    clusters = pluralize(record["values"]["clusters"], "cluster")
    if found.get("separable", True):
        result = f"{clusters}, by k-means" if found.get("mode") == "k-means" else clusters
    elif found.get("heights"):
        result = "nothing to separate, one cluster"
    else:
        result = "too few for two clusters, so there is one"
    return f"In step {record['step']}, {pluralize(len(record['answered']), 'client')} sent {sent}: {result}."


def _flips(flip: float | Sequence[float]) -> str:
    if isinstance(flip, int | float):
        return f"every bit flipped with probability {flip:.3g}" if flip else "no bit flipped"
    return f"every bit flipped with a probability chosen by the client, {min(flip):.3g} to {max(flip):.3g}"


def _privacy(found: Mapping[str, Any]) -> str:
    """Describe the privacy guarantee of the messages in plain words."""
    if "epsilon" not in found:
        return "The messages were sent without noise, with no privacy guarantee; see docs/privacy.md."
    if "delta" in found:
        return _privacy_of_sums(found)
    flips = [found["flip"]] if isinstance(found["flip"], int | float) else found["flip"]
    if not min(flips):
        who = "Bits" if len(flips) == 1 else "Bits of some clients"
        return f"{who} were sent without noise, with no privacy guarantee; see docs/privacy.md."
    weakest = "" if len(flips) == 1 else ", for the clients with the lowest probability"
    bit, whole = _short(found["epsilon_bit"]), _short(found["epsilon"])
    if found["epsilon"] > MEANINGFUL_EPSILON:
        text = f"Privacy: no meaningful guarantee for a whole message (epsilon {whole}{weakest}; {bit} for one bit)"
    else:
        text = f"Privacy: epsilon {bit} for one bit, {whole} for a whole message{weakest}"
    covered = "It covers this message alone, not the models that clients train."
    return f"{text}. {covered}{_simulated(found)} See docs/privacy.md."


def _privacy_of_sums(found: Mapping[str, Any]) -> str:
    """Describe the privacy guarantee of sums with noise, which holds for single samples."""
    budget = f"epsilon {_short(found['epsilon'])} and delta {found['delta']:g}"
    kept = f"{budget} for one sample" if found["epsilon"] <= MEANINGFUL_EPSILON else (
        f"no meaningful guarantee for one sample ({budget})"
    )  # fmt: skip
    return (
        f"Privacy: {kept}, not for a client as a whole. It covers these messages alone, not the models that clients "
        f"train.{_simulated(found)} See docs/privacy.md."
    )


def _simulated(found: Mapping[str, Any]) -> str:
    """Describe what noise hides nothing from, if clients are simulated."""
    simulated = found.get("noise_source") == "the run's seed"
    return (
        " Clients were simulated: noise follows from the run's seed, and hides nothing from who knows it." * simulated
    )


def _bars(record: Mapping[str, Any], found: Mapping[str, Any]) -> list[Bars]:
    if found.get("heights") and "cut" in found:
        return [_dendrogram(record, found)]
    if len(found.get("silhouettes", {})) > 1:
        return [_silhouettes(found["silhouettes"])]
    return []


def _dendrogram(record: Mapping[str, Any], found: Mapping[str, Any]) -> Bars:
    heights, cut = found["heights"], found["cut"]
    caption = (
        "Starting from single clients, the two most similar clusters were merged again and again (Ward's method); the "
        "height of a merge is how far they differ. "
    )
    if cut is None:
        caption += "No merge stands out, so there is one cluster."
        return Bars("Merge heights", caption, _ranks(heights), heights, [False] * len(heights), "merge, highest first")
    undone = [height >= cut for height in heights]
    rule = _RULES.get(found.get("mode", ""), "at the dashed line")
    caption += f"The dendrogram was cut {rule}; merges above the cut were undone."
    if sum(undone) != record["values"]["clusters"] - 1:
        caption += (
            " Some of them separate fewer clients than the minimum size of a cluster; these joined the nearest cluster."
        )
    caption += " The larger the step at the cut, the clearer the clusters."
    return Bars(
        "Merge heights", caption, _ranks(heights), heights, undone, "merge, highest first", cut, f"cut at {cut:.3g}"
    )


def _ranks(heights: Sequence[float]) -> list[str]:
    return [str(rank) for rank in range(1, len(heights) + 1)]


def _silhouettes(scores: Mapping[str, float]) -> Bars:
    counts = sorted(scores, key=int)
    values = [scores[count] for count in counts]
    best = max(range(len(values)), key=values.__getitem__)
    caption = (
        "Mean silhouette of the clients for each number of clusters tried: 1 is well separated, 0 is not. The highest "
        f"was chosen, {counts[best]} clusters."
    )
    return Bars("Silhouette", caption, counts, values, [at == best for at in range(len(values))], "clusters")


def _short(epsilon: float) -> str:
    """Format an epsilon with at most three significant digits and no exponent."""
    return f"{epsilon:,.0f}" if epsilon >= 100 else f"{epsilon:.2g}" if epsilon >= 1 else f"{epsilon:.3g}"
