"""How clusters were found, where a method's records tell.

Of clusters of clients, from a record whose values hold ``clustering``. It is a mapping with ``mode``; for messages of bits
with ``bits``, ``flip`` (a probability, or those that clients took in turn), ``epsilon_bit`` and ``epsilon`` (``None``
where infinite); and with what clusters were read off: the greatest merge ``heights`` of a tree and the ``cut`` through
it, or ``silhouettes`` by number of clusters.

Of clusters of samples, from a record whose values hold ``stabilities``, one for each of ``resolutions``, with the number
of ``clusters_found`` at each and the ``resolution`` that was taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.experiment.words import many
from fedkin.report import Bars

RecordLine = dict[str, Any]

_MEANINGFUL = 10.0
"""Beyond this epsilon what a message says may be e to the power of it, 22,000 times, likelier for one than another."""

_RULES = {
    "gap": "where merges become much lower than the one before, and above what chance alone gives",
    "exact": "where clusters explain most, compared with what chance alone gives",
    "bayes": "where a search over some thresholds found the clusters most distinct",
}


def clustering_of(records: Sequence[RecordLine]) -> tuple[list[str], list[Bars]]:
    """Sentences on how clusters were found and how private that was, and drawings of what they were read off."""
    for record in records:
        told = record["values"].get("clustering")
        if isinstance(told, Mapping):
            return [_found(record, told), _privacy(told)], _bars(record, told)
        if "stabilities" in record["values"]:
            return [_cut(record)], [_stability(record["values"])]
    return [], []


def _found(record: RecordLine, told: Mapping[str, Any]) -> str:
    """Who sent what, and how many clusters that gave."""
    sent = f"{told['bits']:,} bits each, {_flips(told['flip'])}" if "bits" in told else "one message each"
    clusters = many(record["values"]["clusters"], "cluster")
    if told.get("separable", True):
        result = f"{clusters}, by k-means" if told["mode"] == "k-means" else clusters
    elif told.get("heights"):
        result = "nothing to separate, one cluster"
    else:
        result = "too few for two clusters, so there is one"
    return f"In step {record['step']}, {many(len(record['answered']), 'client')} sent {sent}: {result}."


def _flips(flip: float | Sequence[float]) -> str:
    if isinstance(flip, int | float):
        return f"every bit flipped with probability {flip:.3g}" if flip else "no bit flipped"
    return f"every bit flipped with a probability that the client chose, {min(flip):.3g} to {max(flip):.3g}"


def _privacy(told: Mapping[str, Any]) -> str:
    """What the messages' privacy amounts to, in plain words."""
    if "epsilon" not in told:
        return "The messages were sent as they are, with nothing to protect them; see docs/privacy.md."
    flips = [told["flip"]] if isinstance(told["flip"], int | float) else told["flip"]
    if not min(flips):
        who = "Bits" if len(flips) == 1 else "Bits of some clients"
        return f"{who} were sent as they are, with nothing to protect them; see docs/privacy.md."
    least = "" if len(flips) == 1 else ", for those who flip least"
    bit, whole = _short(told["epsilon_bit"]), _short(told["epsilon"])
    text = f"Privacy: epsilon {bit} for one bit, {whole} for a whole message{least}"
    if told["epsilon"] > _MEANINGFUL:
        text += ", which for a whole message is no meaningful guarantee by itself"
    return f"{text}. This is about the message alone: models that clients train tell more. See docs/privacy.md."


def _bars(record: RecordLine, told: Mapping[str, Any]) -> list[Bars]:
    if told.get("heights"):
        return [_tree(record, told)]
    if len(told.get("silhouettes", {})) > 1:
        return [_silhouettes(record, told["silhouettes"])]
    return []


def _tree(record: RecordLine, told: Mapping[str, Any]) -> Bars:
    heights, cut = told["heights"], told["cut"]
    caption = (
        "Starting with every client on its own, the two parts most alike were merged, again and again (Ward's method); "
        "a merge is the higher, the more its two parts differ. "
    )
    if cut is None:
        caption += "No merge stands out, so none was undone."
        return Bars("Merge heights", caption, _ranks(heights), heights, [False] * len(heights), "merge, highest first")
    undone = [height >= cut for height in heights]
    caption += f"The tree was cut {_RULES.get(told['mode'], 'at the dashed line')}; merges above the cut were undone."
    if sum(undone) != record["values"]["clusters"] - 1:
        caption += " Some of them part off fewer clients than a cluster needs, who went to the nearest cluster."
    caption += " The greater the step at the cut, the clearer the clusters."
    return Bars(
        "Merge heights", caption, _ranks(heights), heights, undone, "merge, highest first", cut, f"cut at {cut:.3g}"
    )


def _ranks(heights: Sequence[float]) -> list[str]:
    return [str(rank) for rank in range(1, len(heights) + 1)]


def _silhouettes(record: RecordLine, scores: Mapping[str, float]) -> Bars:
    counts = sorted(scores, key=int)
    values = [scores[count] for count in counts]
    best = max(range(len(values)), key=values.__getitem__)
    caption = (
        "How much nearer clients are to their own cluster than to the next, for each number of clusters that was tried: "
        f"1 is clear, 0 is not. The greatest was taken, {counts[best]} clusters."
    )
    return Bars("Silhouette", caption, counts, values, [at == best for at in range(len(values))], "clusters")


def _cut(record: RecordLine) -> str:
    """What the graph of small clusters fell into."""
    values = record["values"]
    nodes, clusters = many(values["nodes"], "small cluster"), many(values["clusters"], "cluster")
    return (
        f"In step {record['step']}, a graph of {nodes} from {many(len(record['answered']), 'client')} gave {clusters}."
    )


def _stability(values: Mapping[str, Any]) -> Bars:
    taken = values["resolutions"].index(values["resolution"])
    caption = (
        "Clusters were found at each resolution, the coarsest first, and again with some of the small clusters left out; "
        "bars say how far both agree: 1 is the same. The coloured one was taken. Below each, the number of clusters."
    )
    found, left = values["clusters_found"][taken], values["clusters"]
    if found > left:
        caption += (
            f" Of its {found} clusters some were then joined, those with most links between them, which left {left}."
        )
    names = [str(count) for count in values["clusters_found"]]
    strong = [at == taken for at in range(len(names))]
    return Bars("Stability", caption, names, values["stabilities"], strong, "clusters, by resolution")


def _short(epsilon: float) -> str:
    """Three significant digits at most, without an exponent."""
    return f"{epsilon:,.0f}" if epsilon >= 100 else f"{epsilon:.2g}" if epsilon >= 1 else f"{epsilon:.3g}"
