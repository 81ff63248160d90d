"""Words that distinguish clusters of texts, from sums of how many texts of each cluster hold a word.

Clients of a simulation report the words that enough of their texts hold, and of each cluster how many do, without cells
of too few texts; the server uses those that two clients or more have.

Real sites report nothing: a word that one site alone has would leave it, such as a name, and of a digest whoever knows
the salt can try words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from fedkin.core import Client, Federation, Payload, client_task
from fedkin.core.replies import counts_to, int64, is_list, is_text
from fedkin.core.seeds import Secret
from fedkin.data.options import MIN_MEMBERS
from fedkin.data.samples import content


def _texts(client: Client) -> list[str] | None:
    """Return a simulated client's texts, those of several columns together; ``None`` without any, or at a site."""
    if isinstance(client.noise, Secret) or "clusters" not in client.state:
        return None
    columns = [] if client.samples is None else [client.samples]
    if client.samples is None and client.table is not None:
        columns = [column.texts for column in client.table.texts.values() if column.rows is not None]
    if not columns or any(column.kind != "texts" or len(column) != len(client) for column in columns):
        return None
    rows = zip(*(column.items for column in columns), strict=True)
    return [" ".join(str(content(item, "texts", "the site")) for item in row) for row in rows]


@client_task(
    takes={"n_clusters": counts_to(10_000), "min_members": counts_to(2**31)},
    holds={"words": is_list(is_text), "counts": int64("clusters", None), "members": int64("clusters")},
    may_be_empty=True,
)
def word_counts(client: Client, payload: Payload) -> Payload:
    """Report how many texts of each cluster hold a word, and how many there are, at a simulated client; else nothing.

    They are words that ``min_members`` of its texts hold. Counts of fewer are 0, and where fewer texts of a cluster
    lack a word, all count as holding it.
    """
    if (texts := _texts(client)) is None:
        return {}
    k, minimum = int(payload["n_clusters"]), max(MIN_MEMBERS, int(payload["min_members"]), client.min_members)
    clusters = client.state["clusters"]
    members = clusters[(clusters >= 0) & (clusters < k)].bincount(minlength=k)
    from sklearn.feature_extraction.text import CountVectorizer  # for texts alone

    words, counts = [], torch.zeros(k, 0, dtype=torch.int64)
    with suppress(ValueError):  # no word is held by so many
        # Letters alone; the most frequent words tell clusters apart, and others take time.
        vectorizer = CountVectorizer(binary=True, token_pattern=r"[^\W\d_]{3,40}", min_df=minimum, max_features=4096)
        holds = vectorizer.fit_transform(texts)
        sums = [holds[(clusters == cluster).numpy()].sum(0) for cluster in range(k)]
        words, counts = vectorizer.get_feature_names_out().tolist(), torch.from_numpy(np.concatenate(sums)).long()
    counts = torch.where(members[:, None] - counts < minimum, members[:, None], counts)
    return {"words": words, "counts": counts * (counts >= minimum), "members": members * (members >= minimum)}


def words_of_clusters(fed: Federation, n_clusters: int, min_members: int = MIN_MEMBERS) -> list[list[str]]:
    """Ask clients with texts for the words that distinguish clusters: some for each, the most telling first.

    It changes nothing at the clients, which have ``state["clusters"]``. The list is empty where they have no texts, or
    where secure sums are asked for. `min_members`, at least 5, are a client's texts that must hold a word.
    """
    if fed.secure_sums:
        return []
    replies = fed.ask_again(word_counts, fed.all(n_clusters=n_clusters, min_members=min_members), 5)
    reports = [
        reply
        for _, reply in sorted(replies.items())
        if reply and tuple(reply["counts"].shape) == (n_clusters, len(reply["words"]))
    ]
    times = Counter(word for reply in reports for word in set(reply["words"]))
    words = sorted(word for word, clients in times.items() if clients > 1)
    if not words:
        return []
    place = {word: column for column, word in enumerate(words)}
    counts = torch.zeros(n_clusters, len(words), dtype=torch.float64)
    members = torch.zeros(n_clusters, dtype=torch.float64)
    for reply in reports:
        shared = [column for column, word in enumerate(reply["words"]) if word in place]
        counts[:, [place[reply["words"][column]] for column in shared]] += reply["counts"][:, shared]
        members += reply["members"]
    return telling_words(words, counts, members)


def telling_words(words: Sequence[str], counts: Tensor, members: Tensor) -> list[list[str]]:
    """Return the words of each cluster, at most six, that most raise the odds of a text being in it.

    `counts`, float64 ``(k, words)``, are texts that hold a word, and `members` ``(k,)`` texts. A word counts by its
    share of the cluster's texts times the logarithm of how many times its share of the others it is.
    """
    telling = []
    for cluster, holders in enumerate(counts):
        share = holders / members[cluster].clamp_min(1)
        elsewhere = (counts.sum(0) - holders + 1) / (members.sum() - members[cluster] + 2)
        score = share * (share.clamp_min(1e-9) / elsewhere).log()
        best = score.argsort(descending=True, stable=True)[:6].tolist()
        telling.append([words[i] for i in best if float(score[i]) > 0 and share[i] > math.e * elsewhere[i] / 2])
    return telling
