"""Words that distinguish clusters of texts, of which none leaves a client that another does not have, too.

1. For each other client a client makes a digest of every word that `min_members` of its texts hold, under the key that
   these two share (X25519), so that the server, which passes digests on, can try no words.
2. A client that finds its words among the digests of others sends these, and no others.
3. Sums over all clients say how many texts of each cluster hold them; they are hidden where sums are.

A client in league with the server can find out which of its own words another has.
"""

from __future__ import annotations

import hmac
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Client, Federation, Payload, client_task
from fedkin.core.payload import Expected, ListOf, counts_to, int64, is_text, uint8
from fedkin.data.columns import smallest_group
from fedkin.data.options import MIN_MEMBERS
from fedkin.data.samples import content
from fedkin.secure_aggregation.client_tasks import GROUP, keys_of, secret_of
from fedkin.secure_aggregation.masks import agreed, channel_key, octets_of, rows_of
from fedkin.secure_aggregation.masks import content as bytes_of
from fedkin.secure_aggregation.sums import ask_keys, group_request, groups_of

WORD = r"[^\W\d_]{3,40}"
"""What counts as a word of a text: letters alone."""
_MOST = 1024  # words of a client: the most frequent tell clusters apart, and each takes 16 bytes for every other client
_DIGEST = 16  # bytes, of which no two words have the same
_SHARED = "shared_words"
"""In a client's state: its words that another has, too, which are all that it counts, one on each line, uint8."""
_LEAST: Expected = {"min_members": counts_to(2**31)}


@client_task(
    takes={**GROUP, **_LEAST},
    holds={"digests": uint8("clients", "words", _DIGEST)},
    may_be_empty=True,
    sends="Digests of words that several texts hold, under keys that the server does not have",
    fewest="min_members",
)
def send_word_digests(client: Client, payload: Payload) -> Payload:
    """Send a digest of each of the client's words for every client of a group; nothing without texts."""
    words = _words(client, payload)
    keys = _pair_keys(client, payload)
    if words is None or not keys:
        return {}
    digests = [sorted(_digest(keys[peer], payload, client.id, word) for word in words) for peer in payload["ids"]]
    return {"digests": octets_of([digest for part in digests for digest in part], len(keys), len(words), _DIGEST)}


@client_task(
    takes={**GROUP, **_LEAST, "digests": uint8("others", _DIGEST)},
    holds={"words": ListOf(is_text)},
    sends="Words that several texts hold, here and at another client",
    fewest="min_members",
)
def send_shared_words(client: Client, payload: Payload) -> Payload:
    """Send the client's words of which another has made one of the digests."""
    digests, keys = set(rows_of(payload["digests"])), _pair_keys(client, payload)
    keys.pop(client.id, None)  # its own digests may have been sent back to it
    words = _words(client, payload) or []
    shared = [word for word in words if any(_digest(keys[peer], payload, peer, word) in digests for peer in keys)]
    text = "\n".join(shared).encode()
    client.state[_SHARED] = octets_of([text], len(text))
    return {"words": shared}


@client_task(
    takes={**_LEAST, "n_clusters": counts_to(10_000), "words": ListOf(is_text)},
    holds={"counts": int64("clusters", "words"), "members": int64("clusters")},
    sends="How many texts of each cluster hold a word, of words that another client has, too",
    fewest="min_members",
)
def count_words(client: Client, payload: Payload) -> Payload:
    """Report how many texts of each cluster hold a word, and how many there are; zeros without texts.

    Only words are counted that the client has sent itself. Counts below ``min_members`` are 0, and where fewer texts of
    a cluster lack a word, all count as holding it.
    """
    k, words = payload["n_clusters"], payload["words"]
    counts, members = torch.zeros(k, len(words), dtype=torch.int64), torch.zeros(k, dtype=torch.int64)
    shared = bytes_of(client.state[_SHARED]).decode().split("\n") if _SHARED in client.state else []
    known = {word: place for place, word in enumerate(words) if word in shared}
    texts = _texts(client)
    if texts is not None and known:
        minimum, clusters = smallest_group(client, payload), client.state["clusters"]
        places = list(known.values())
        holds = torch.from_numpy(_vectorizer(vocabulary=list(known)).transform(texts).toarray())
        for cluster in range(k):
            inside = clusters == cluster
            members[cluster], counts[cluster, places] = inside.sum(), holds[inside].sum(0)
        counts = torch.where(members[:, None] - counts < minimum, members[:, None], counts)
        counts, members = counts * (counts >= minimum), members * (members >= minimum)
        counts[:, [place for place, word in enumerate(words) if word not in known]] = 0
    return {"counts": counts, "members": members}


def _texts(client: Client) -> list[str] | None:
    """Return the client's texts, those of several columns of a row together; ``None`` if it has none or no clusters."""
    columns = [] if client.samples is None else [client.samples]
    if client.samples is None and client.table is not None:
        columns = [column.texts for column in client.table.texts.values() if column.rows is not None]
    columns = [column for column in columns if column.kind == "texts"]
    if "clusters" not in client.state or not columns or any(len(column) != len(client) for column in columns):
        return None
    rows = zip(*(column.items for column in columns), strict=True)
    return [" ".join(str(content(item, "texts", "the site")) for item in row) for row in rows]


def _vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(binary=True, token_pattern=WORD, **options)


def _words(client: Client, payload: Payload) -> list[str] | None:
    """Return the words that enough of a client's texts hold, in order; ``None`` without texts."""
    if (texts := _texts(client)) is None:
        return None
    with suppress(ValueError):  # no word is held by so many
        vectorizer = _vectorizer(min_df=smallest_group(client, payload), max_features=_MOST).fit(texts)
        return [str(word) for word in vectorizer.get_feature_names_out()]
    return []


def _pair_keys(client: Client, payload: Payload) -> dict[int, bytes]:
    """Return the key that the client shares with each of a group; none if its site's file lists others."""
    keys, identity = keys_of(payload), client.identity
    signatures = dict(zip(payload["ids"], payload.get("signed", []), strict=False))
    if identity is not None and identity.objection(client.id, keys, signatures):
        return {}
    channel = channel_key(secret_of(client))
    return {peer: agreed(channel, key) for peer, key in keys.items()}


def _digest(key: bytes, payload: Payload, sender: int, word: str) -> bytes:
    purpose = b"fedkin words" + bytes_of(payload["tag"]) + f"/{sender}/{word}".encode()
    return hmac.digest(key, purpose, "sha256")[:_DIGEST]


def words_of_clusters(fed: Federation, n_clusters: int, min_members: int = MIN_MEMBERS) -> list[list[str]]:
    """Ask clients with texts for the words that distinguish clusters: some for each, the most telling first.

    The clients have ``state["clusters"]``. The list is empty where they have no texts or no word in common, or where
    secure sums are asked for, as the server sees whose the words are. `min_members`, at least 5, are a client's texts
    that must hold a word.
    """
    if fed.secure_sums:
        return []
    ask_keys(fed, fed.present)
    holders = Counter[str]()
    for ids in groups_of([client for client in fed.present if client in fed.keys]):
        group = group_request(fed, ids) | {"min_members": min_members}
        expected = {"digests": uint8(len(ids), "words", _DIGEST)}
        replies = fed.ask_again(send_word_digests, dict.fromkeys(ids, group), 5, expected)
        made = {client: reply["digests"] for client, reply in replies.items() if reply}
        requests = {
            client: group | {"digests": torch.cat([made[peer][ids.index(client)] for peer in made if peer != client])}
            for client in made
            if len(made) > 1
        }
        for reply in fed.ask_again(send_shared_words, requests, 5).values():
            holders.update(set(reply["words"]))
    words = sorted(word for word, clients in holders.items() if clients > 1)
    if not words:
        return []
    payload = {"words": words, "n_clusters": n_clusters, "min_members": min_members}
    sums = fed.sums().ask(count_words, payload, {"counts": (n_clusters, len(words)), "members": (n_clusters,)})
    return [] if sums is None else telling_words(words, sums["counts"], sums["members"])


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
