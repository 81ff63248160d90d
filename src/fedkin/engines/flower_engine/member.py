"""Members of a federation over Flower: what a site has introduced itself with, checked, and its Flower node."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from flwr.app import Message

from fedkin.core import FedkinError
from fedkin.core.errors import listing
from fedkin.core.replies import is_name, is_text
from fedkin.engines.flower_engine.wire import in_one_line, read

NOWHERE = 0
"""Node of a site that took part and has not come back."""

_LONGEST = 300
"""Maximum number of characters of a node's own words in the log."""


@dataclass(frozen=True)
class Member:
    """A site as the server knows it, from its introduction.

    Names are stable, and ids of sites are in order of them. `shape` is that of one sample. `identity` is a token that
    distinguishes this site from another of the same name. `features` are a table's columns; these and `classes` may be
    empty. `key` is the public key that Flower authenticates its node with, as OpenSSH writes it, where the site says
    that it keeps it; else empty: a node without authentication has a new key whenever it starts. `node` is Flower's
    number of the node that it is reached by now, or `NOWHERE`.
    """

    name: str
    identity: str
    shape: tuple[int, ...]
    features: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    key: str = ""
    node: int = NOWHERE

    @property
    def kind(self) -> tuple[int, ...] | None:
        """Shape of a sample; ``None`` for tables, whose columns are agreed on by name later."""
        return None if self.features else self.shape

    @property
    def data(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Shape and columns of the data, which must be the same when the site comes back."""
        return self.shape, tuple(self.features)

    @property
    def described(self) -> str:
        """Description of the data in words, such as "samples of shape (1, 28, 28)"."""
        if self.features:
            return f"a table of {len(self.features)} columns ({listing(self.features)})"
        return f"samples of shape {self.shape}"


def introduced(reply: Message, node: int, key: str) -> Member:
    """Return the member that a site's introduction describes, see `fedkin.engines.site.Site.introduction`.

    `node` is Flower's number of the node that was asked, and `key` the node's public key as Flower knows it, see
    `Member.key`. Raises FedkinError if it is no introduction.
    """
    if reply.has_error():
        raise FedkinError(f"Node {node} did not introduce itself (code {reply.error.code}).")
    found = read(reply.content)
    if refusal := found.text("refusal"):
        raise FedkinError(f"Node {node}: {in_one_line(refusal, _LONGEST)}")
    try:
        one = Member(**found.tree())
    except TypeError:
        one = None
    if one is None or not _is_typed(one):
        raise FedkinError(f"Node {node} does not introduce itself as sites of fedkin do.")
    return replace(one, node=node, shape=tuple(one.shape), key=key if one.key == key else "")


def _is_typed(one: Member) -> bool:
    """Return whether every field has its type."""
    if not all(isinstance(several, list) for several in (one.shape, one.features, one.classes)):
        return False
    if not (is_name(one.name) and is_name(one.identity) and is_text(one.key)):
        return False
    words = [*one.features, *one.classes]
    return all(map(is_text, words)) and all(type(size) is int for size in one.shape)
