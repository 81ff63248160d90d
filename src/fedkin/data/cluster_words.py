"""Words that distinguish clusters of texts, from sums of how many texts of each cluster hold a word.

No text leaves a client. In a first exchange clients send digests of the words that enough of their texts hold; the
server asks for those words alone that two clients or more have, and in a second exchange receives their counts by
cluster, without cells of too few texts.

Real sites report nothing: a digest of a word that one site alone has would leave it, and whoever knows the salt can try
words, such as names.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Client, Federation, Payload, client_task
from fedkin.core.replies import Expected, counts_to, int64, is_list, is_name, is_text
from fedkin.core.seeds import Secret
from fedkin.data.options import MIN_MEMBERS
from fedkin.data.samples import content

SHOWN = 6
"""Words that name a cluster."""
_WORD = re.compile(r"[^\W\d_]{3,40}")
_MOST = 4096
"""Words of a client that are compared, the most frequent ones."""
_ATTEMPTS = 5
_FEW_CLIENTS = 2
"""Clients that must have a word for it to leave any."""


@lru_cache(maxsize=4096)
def _digest(salt: str, word: str) -> str:
    return hashlib.sha256(f"{salt} {word}".encode()).hexdigest()[:16]


def _vocabulary(client: Client, minimum: int) -> list[set[str]] | None:
    """Return the words of each of a client's texts that enough of them hold; ``None`` without texts or at a site."""
    if isinstance(client.noise, Secret):
        return None
    of_table = (
        [] if client.table is None else [one.texts for one in client.table.texts.values() if one.rows is not None]
    )
    columns = of_table if client.samples is None else [client.samples]
    if "clusters" not in client.state or not columns or any(one.kind != "texts" for one in columns):
        return None
    if any(len(one) != len(client) for one in columns):
        return None
    texts = [
        " ".join(str(content(item, "texts", "the site")) for item in row)
        for row in zip(*(one.items for one in columns), strict=True)
    ]
    words = [set(_WORD.findall(text.lower())) for text in texts]
    times = Counter(word for held in words for word in held)
    common = {word for word, count in sorted(times.items(), key=lambda item: -item[1])[:_MOST] if count >= minimum}
    return [held & common for held in words]


def _minimum(client: Client, payload: Payload) -> int:
    return max(MIN_MEMBERS, int(payload["min_members"]), client.min_members)


_MEMBERS: Expected = {"min_members": counts_to(2**31)}


@client_task(takes={"salt": is_text, **_MEMBERS}, holds={"digests": is_list(is_name)}, may_be_empty=True)
def word_digests(client: Client, payload: Payload) -> Payload:
    """Report digests of the words that ``min_members`` of a simulated client's texts hold; empty without texts."""
    words = _vocabulary(client, _minimum(client, payload))
    if words is None:
        return {}
    return {"digests": sorted({_digest(payload["salt"], word) for held in words for word in held})}


@client_task(
    takes={"salt": is_text, "digests": is_list(is_name), "n_clusters": counts_to(10_000), **_MEMBERS},
    holds={"words": is_list(is_text), "counts": int64("clusters", None), "members": int64("clusters")},
    may_be_empty=True,
)
def word_counts(client: Client, payload: Payload) -> Payload:
    """Report how many texts of each cluster hold some words, and how many there are; 0 where they are too few.

    Where too few texts of a cluster lack a word, all count as holding it.
    """
    minimum = _minimum(client, payload)
    texts = _vocabulary(client, minimum)
    if texts is None:
        return {}
    wanted = set(payload["digests"])
    words = sorted({word for held in texts for word in held if _digest(payload["salt"], word) in wanted})
    place = {word: at for at, word in enumerate(words)}
    clusters, k = client.state["clusters"], int(payload["n_clusters"])
    members = clusters[(clusters >= 0) & (clusters < k)].bincount(minlength=k)
    counts = torch.zeros(k, len(words), dtype=torch.int64)
    for cluster, held in zip(clusters.tolist(), texts, strict=True):
        if 0 <= cluster < k:
            counts[cluster, [place[word] for word in held if word in place]] += 1
    counts = torch.where(members[:, None] - counts < minimum, members[:, None], counts)
    return {"words": words, "counts": counts * (counts >= minimum), "members": members * (members >= minimum)}


def words_of_clusters(fed: Federation, n_clusters: int, min_members: int = MIN_MEMBERS) -> list[list[str]]:
    """Ask clients with texts for the words that distinguish clusters: some for each, the most telling first.

    It changes nothing at the clients, which have ``state["clusters"]``. The list is empty where they have no texts, or
    where secure sums are asked for. `min_members`, at least 5, are a client's texts that must hold a word.
    """
    if fed.secure_sums:
        return []
    question: dict[str, Any] = {"salt": f"{fed.rng('words').initial_seed()}", "min_members": min_members}
    replies = fed.ask_again(word_digests, fed.all(**question), _ATTEMPTS)
    times = Counter(digest for reply in replies.values() for digest in reply.get("digests", []))
    shared = sorted(digest for digest, clients in times.items() if clients >= _FEW_CLIENTS)
    if not shared:
        return []
    question |= {"digests": shared, "n_clusters": n_clusters}
    replies = fed.ask_again(word_counts, fed.all(**question), _ATTEMPTS)
    reports = [
        reply
        for _, reply in sorted(replies.items())
        if reply and tuple(reply["counts"].shape) == (n_clusters, len(reply["words"]))
    ]
    words = sorted({word for reply in reports for word in reply["words"]})
    counts = torch.zeros(n_clusters, len(words), dtype=torch.float64)
    members = torch.zeros(n_clusters, dtype=torch.float64)
    for reply in reports:
        counts[:, [words.index(word) for word in reply["words"]]] += reply["counts"]
        members += reply["members"]
    return telling_words(words, counts, members)


def telling_words(words: Sequence[str], counts: Tensor, members: Tensor) -> list[list[str]]:
    """Return the words of each cluster that most raise the odds of a text being in it.

    `counts`, float64 ``(k, words)``, are texts that hold a word, and `members` ``(k,)`` texts. A word counts by its
    share of the cluster's texts times the logarithm of how many times its share of the others it is.
    """
    telling = []
    for cluster, holders in enumerate(counts):
        share = holders / members[cluster].clamp_min(1)
        elsewhere = (counts.sum(0) - holders + 1) / (members.sum() - members[cluster] + 2)
        score = share * (share.clamp_min(1e-9) / elsewhere).log()
        best = score.argsort(descending=True, stable=True)[:SHOWN].tolist()
        telling.append([words[at] for at in best if float(score[at]) > 0 and share[at] > math.e * elsewhere[at] / 2])
    return telling
