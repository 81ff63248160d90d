"""Explanations and bar charts of how clusters were found, from the values of a method's records.

Clusters of clients: ``clustering``, a mapping with any of ``mode``; for messages of bits ``bits``, ``flip`` (a
probability, or one for each client), ``epsilon_bit`` and ``epsilon`` (``None`` where infinite); for messages of sums
``numbers``, ``epsilon`` and ``delta``; and the greatest merge ``heights`` of a dendrogram and its ``cut``, or
``silhouettes`` by number of clusters. It is empty for a method that says nothing of them.

Clusters of samples: ``stabilities``, one for each of ``resolutions``, with the number of ``clusters_found`` at each and
the ``resolution`` chosen, unless they were found ``by_density`` or by the ``linkage`` "ward", are ``compact``, a
``valley`` divides them, or trees have too little ``agreement`` on any. On a line ``by_modes``, whether clusters are
modes. And ``scales``, coarser and finer ones, see `fedkin.report.ScaleTree`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.core.progress import RecordLine
from fedkin.privacy.accounting import MEANINGFUL_EPSILON
from fedkin.report import Bars, Scale, ScaleTree
from fedkin.report.numbers import pluralize

_RULES = {
    "gap": "where the next merge is much lower, and above what chance alone gives",
    "exact": "where clusters explain most variance, compared with what chance alone gives",
    "sums": "above the height that noise alone gives",
    "bayes": "where a search over some thresholds found the clusters most distinct",
}


def clustering_of(records: Sequence[RecordLine]) -> tuple[list[str], list[Bars]]:
    """Explain how clusters were found and how private that was, with bar charts of the criterion."""
    for record in records:
        found = record["values"].get("clustering")
        if isinstance(found, Mapping):
            return [_found(record, found), *([_privacy(found)] if found else [])], _bars(record, found)
        if "stabilities" in record["values"]:
            return [_cut(record)], [_stability(record["values"])]
    return [], []


def scales_of(records: Sequence[RecordLine]) -> ScaleTree | None:
    """Build the tree of coarser and finer clusters; ``None`` if the method reports none."""
    for record in records:
        scales = record["values"].get("scales", [])
        if len(scales) > 1:
            drawn = [Scale(one["samples"], one["parents"], one["stability"], one["chosen"]) for one in scales]
            caption = (
                "Each row is one division of all samples, the coarsest first, and each block a cluster, as wide as it "
                "has samples, below the cluster that most of it is part of. Coloured rows are the clusters found and "
                "what they divide into. `fedkin cut` gives those of another row."
            )
            return ScaleTree("Coarser and finer clusters", caption.replace("`", ""), drawn)
    return None


def _found(record: RecordLine, found: Mapping[str, Any]) -> str:
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


def _bars(record: RecordLine, found: Mapping[str, Any]) -> list[Bars]:
    if found.get("heights") and "cut" in found:
        return [_dendrogram(record, found)]
    if len(found.get("silhouettes", {})) > 1:
        return [_silhouettes(found["silhouettes"])]
    return []


def _dendrogram(record: RecordLine, found: Mapping[str, Any]) -> Bars:
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


def _cut(record: RecordLine) -> str:
    """Describe the number of micro-clusters, and the number of clusters found in them."""
    values = record["values"]
    nodes, clusters = pluralize(values["nodes"], "micro-cluster"), pluralize(values["clusters"], "cluster")
    found_in = nodes if _other_way(values) else f"a graph of {nodes}"
    clients = pluralize(len(record["answered"]), "client")
    return f"In step {record['step']}, {found_in} from {clients} gave {clusters}."


def _other_way(values: Mapping[str, Any]) -> str | None:
    """Return how clusters were found if not in the graph."""
    if values.get("by_density"):
        return "these clusters are pieces of longer ones, which the gaps between micro-clusters show (HDBSCAN)"
    if values.get("by_modes"):
        return "samples differ in one direction alone, so clusters are the modes of their density"
    if "by_modes" in values:
        return "samples differ in one direction alone, and its density does not show as many clusters (k-means)"
    if values.get("compact"):
        return "columns of few values put samples in few places, so clusters are compact ones (k-means)"
    if "agreement" in values:
        return "trees of the micro-clusters agree on no division, so all are one cluster"
    if "valley" in values:
        return "clusters touch, but the density has valleys between them (k-means)"
    if values.get("linkage") == "ward":
        return "micro-clusters, in all or in a cluster, are too few for a graph, so clusters are those of Ward's method"
    return None


def _stability(values: Mapping[str, Any]) -> Bars:
    chosen = values["resolutions"].index(values["resolution"])
    if "by_modes" in values:
        caption = (
            "How sure it is that the shallowest valley between so many modes is more than chance: 0.5 is a guess, 1 is "
            f"sure. A single mode has no valley. In this run {_other_way(values)}."
        )
        names = [str(count) for count in values["clusters_found"]]
        return Bars(
            "Modes", caption, names, values["stabilities"], [at == chosen for at in range(len(names))], "clusters"
        )
    other_way = _other_way(values)
    caption = (
        "ARI of the clusters found at each resolution, the coarsest first, with those found without some of the "
        f"micro-clusters: 1 is equal. {'' if other_way else 'The coloured one was chosen. '}Below each bar: the number "
        "of clusters."
    )
    found, left = values["clusters_found"][chosen], values["clusters"]
    if other_way:
        caption += f" None was chosen: {other_way}."
    elif found > left:
        caption += f" Of its {found} clusters, those with the most edges between were then merged, leaving {left}."
    names = [str(count) for count in values["clusters_found"]]
    strong = [at == chosen and not other_way for at in range(len(names))]
    return Bars("Stability", caption, names, values["stabilities"], strong, "clusters, by resolution")


def _short(epsilon: float) -> str:
    """Format an epsilon with at most three significant digits and no exponent."""
    return f"{epsilon:,.0f}" if epsilon >= 100 else f"{epsilon:.2g}" if epsilon >= 1 else f"{epsilon:.3g}"
