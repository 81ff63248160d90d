"""One-shot clustering by private embeddings (Prigent et al. 2024): a few randomised bits per class.

A client encodes its samples, takes the mean code of every class, rounds it to bits and flips each with a certain
probability. The server clusters these messages before any model of a cluster is trained.

With ``message="sums"``, which is not from the paper, it sends noisy sums of its classes' codes: see `embedding_sums`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge, Interval
from torch import Tensor

from fedkin.clustering.tree_cuts import Mode, cluster
from fedkin.core import Client, Federation, Payload, Record, client_task
from fedkin.core.client import LASTING
from fedkin.core.federation import Replies
from fedkin.core.method import Count, Positive, refuse_unused
from fedkin.core.payload import MANY, MAX_CLASSES, counts_to, is_flag, uint8, updates, within
from fedkin.methods.clients.client_method import ClientMethodState, Trained, round_record
from fedkin.methods.clients.embedding_sums import (
    EPSILON,
    ClassMeans,
    ask_class_sums,
    cluster_class_means,
    deviation_of,
    find_centre,
    nearest_by_class_means,
    unseen_class_sums,
)
from fedkin.methods.clients.local_work import Training, filling_of, means_by_class, trained_update, training_task
from fedkin.methods.clients.one_shot import OneShotMethod, OneShotState, OneShotValues, least_clients
from fedkin.nn.client_stack import Job
from fedkin.nn.descent import LOCAL_TRAINING, LocalTraining
from fedkin.nn.encoder import ENCODER, Encoder, Pretrained, choose_autoencoder
from fedkin.privacy.budget import noise_source
from fedkin.privacy.gaussian import gaussian_mu
from fedkin.privacy.randomised_response import (
    MEANINGFUL_EPSILON,
    binary,
    bit_epsilon,
    flip_probability,
    memorised,
    packed,
    unpacked,
)

Flip = Annotated[float, Interval(ge=0, le=0.5)]


@dataclass(frozen=True)
class EmbeddingState(OneShotState):
    """State of one-shot clustering by embeddings: the messages, and the encoder that they are made with.

    `Encoder.of` makes the encoder from `encoder`; its model is `vector` ``(size,)``. A message has `segments` parts,
    one for each class. `centre`, float32 ``(width,)``, is the mean direction of all codes; empty
    before it is known, and if messages are bits. `radius` is the distance from it that is scaled to 1 in class sums.
    """

    encoder: dict[str, Any] = field(default_factory=dict)
    vector: Tensor = field(default_factory=lambda: torch.zeros(0))
    segments: int = 0
    centre: Tensor = field(default_factory=lambda: torch.zeros(0))
    radius: float = 1.0


class EmbeddingValues(OneShotValues, total=False):
    """Values of a step, of pre-training with the encoder's `reconstruction` error."""

    reconstruction: float


@dataclass(frozen=True)
class EmbeddingMethod(OneShotMethod):
    """Clusters clients once by quantised, randomised mean codes of their classes, then averages per cluster.

    A round's clients are sampled from all clients, as in the authors' code, and not per cluster, as in the paper.

    Attributes
    ----------
    encoder : str or None
        File of a pre-trained encoder, see `fedkin pretrain`. Without one, the clients train it.
    pretraining_rounds : int or None
        Rounds in which clients train the encoder; by default 10 without a file and 0 with one. With a file and some
        rounds, it is adapted to the clients (section VII). Half of the clients take part in each.
    pretraining_epochs : int
        Passes of a client over its data in such a round, in batches of `batch_size` (authors' code for MNIST: 3).
    pretraining_steps : int
        Minimum number of optimiser steps of a client in such a round: with few samples it makes more passes, since an
        under-trained encoder hardly separates clients. The default is the authors' for MNIST.
    message : {"bits", "sums"}
        Randomised bits, as in the paper; or noisy sums: of each class, the sum of its codes, which are scaled to length
        1 and clipped around the mean of all, and half their number, with Gaussian noise. Sums need labels, are sent
        once, and can find clusters of two clients and clusters that have classes of their own.
    flip : float
        Probability P in [0, 0.5] with which each bit is flipped (eq. 1).
    epsilon : float or None
        For bits, the budget of a client's whole message, from which P follows. For sums, the budget of each
        sample, by default 8, from which the noise follows (`fedkin.privacy.gaussian`); more than 10 is no guarantee.
        Simulated noise and flips follow from the run's seed, and hide nothing from who knows it.
    delta : float
        For sums, the delta of (epsilon, delta)-differential privacy, in (0, 1).
    clustering : {"exact", "bayes"}
        How the tree of bits is cut, see `fedkin.clustering.tree_cuts`. A tree of sums is cut above their noise.
    min_size : int or None
        Minimum number of clients in a cluster; by default a tenth of all, and at least two.
    """

    encoder: str | None = None
    pretraining_rounds: Annotated[int, Ge(0)] | None = None
    pretraining_epochs: Count = 3
    pretraining_steps: Count = 57
    message: Literal["bits", "sums"] = "bits"
    flip: Flip = 0.1
    epsilon: Positive | None = None
    delta: Annotated[float, Interval(gt=0, lt=1)] = 1e-5
    clustering: Mode = "exact"
    min_size: Count | None = None

    traits = OneShotMethod.traits.replace(paper={"clustering": "bayes"})
    state_type: ClassVar[type[ClientMethodState]] = EmbeddingState
    record_type: ClassVar[type[Any]] = EmbeddingValues

    def __post_init__(self) -> None:
        super().__post_init__()
        # Sums are of codes that depend on one sample each, with noise in place of flips, above which they are cut.
        unused = ("flip", "clustering") if self.message == "sums" else ("delta",)
        refuse_unused(self, dict.fromkeys(unused, f"with message = '{self.message}'"))

    def init(self, fed: Federation) -> EmbeddingState:
        """Return the first state: the classifier, and the encoder from the file or a new one."""
        state: EmbeddingState = super().init(fed)
        shape = tuple(state.module["shape"])
        if self.encoder:
            pretrained = Pretrained.load(Path(self.encoder))
            encoder, vector = pretrained.fitted_to(shape, self.encoder), pretrained.vector
        else:
            output = "sigmoid" if all(fed.ask_until_all_reply(send_range, {}).each("unit")) else "linear"
            encoder = Encoder.of({"name": choose_autoencoder(shape), "shape": shape, "output": output})
            vector = encoder.initial(fed.rng("encoder"))
        return replace(state, encoder=encoder.spec(), vector=vector, segments=state.module["classes"])

    def step(self, fed: Federation, state: Any) -> tuple[EmbeddingState, Record]:
        """Do a round of pre-training while any is left, then proceed as `OneShotMethod.step`."""
        if state.steps < self.pretraining:
            return self._pretrain(fed, state)
        if self.message == "sums" and not len(state.centre):
            return self._with_centre(fed, state)
        return super().step(fed, state)

    @property
    def pretraining(self) -> int:
        """Number of rounds of pre-training."""
        if self.pretraining_rounds is not None:
            return self.pretraining_rounds
        return 0 if self.encoder else 10

    def _pretrain(self, fed: Federation, state: EmbeddingState) -> tuple[EmbeddingState, Record]:
        """Do one round of federated averaging of the autoencoder."""
        # The learning rate of the authors' code for MNIST, and its half of the clients.
        training = LocalTraining(self.pretraining_epochs, None, self.batch_size, "adam", learning_rate=1e-3)
        encoder = {"encoder": state.encoder, "vector": state.vector}
        payload = {**encoder, "training": asdict(training), "steps": self.pretraining_steps}
        payloads = dict.fromkeys(self.participants(fed, state, 0.5), payload)
        means = self.means_of(1, len(state.vector))
        trained = self.add_each(means, fed.stream(train_encoder, payloads, {"update": (len(state.vector),)}))
        answered = Trained(trained.answered, loss=None, missing=trained.missing)
        record = round_record(fed, answered, state.labels, phase="pre-training", reconstruction=trained.loss)
        return state.next(vector=means.apply_to(state.vector[None])[0]), record

    def _with_centre(self, fed: Federation, state: EmbeddingState) -> tuple[EmbeddingState, Record]:
        """Find the mean direction of all codes, around which class sums are clipped, in one exchange."""
        how = {"encoder": state.encoder, "vector": state.vector, "budget": self._sample_mu}
        centre, radius, answered = find_centre(fed, how)
        if not answered:
            return self._again(fed, state, answered.missing)
        trained = Trained(sorted(answered), loss=None, missing=answered.missing)
        record = round_record(fed, trained, state.labels, phase="centre")
        return state.next(centre=centre, radius=radius), record

    @property
    def _sample_epsilon(self) -> float:
        return EPSILON if self.epsilon is None else self.epsilon

    @property
    def _sample_mu(self) -> float:
        """The budget of a sample as mu of Gaussian differential privacy."""
        return gaussian_mu(self._sample_epsilon, self.delta)

    def how(self, state: EmbeddingState) -> dict[str, Any]:
        """Return what clients make messages by."""
        how = {"encoder": state.encoder, "vector": state.vector, "segments": state.segments}
        if self.message == "sums":
            noise = {"budget": self._sample_mu, "deviation": deviation_of(self._sample_mu)}
            return how | {"centre": state.centre, "radius": state.radius} | noise
        bits = state.segments * Encoder.of(state.encoder).width
        return how | {"flip": self.flip if self.epsilon is None else flip_probability(self.epsilon, bits)}

    def messages(self, fed: Federation, state: EmbeddingState, clients: Sequence[int]) -> Replies[Tensor]:
        how = self.how(state)
        if self.message == "sums":
            return ask_class_sums(fed, how, clients)
        bits = state.segments * Encoder.of(state.encoder).width
        replies = fed.ask(embed, dict.fromkeys(clients, how), {"bits": (-(-bits // 8),)})
        return replies.map(lambda reply: unpacked(reply["bits"], bits))

    def clustered(self, fed: Federation, state: EmbeddingState, messages: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """Cluster the clients by the tree of their bits (algorithm 2), or by that of class means."""
        (count, length), how, rng = messages.shape, self.how(state), fed.rng("grouping")
        smallest = least_clients(self.min_size, count)
        values: dict[str, Any] = {"noise_source": noise_source(fed)}
        if self.message == "sums":
            means = ClassMeans.of(messages, how["segments"], how["deviation"])
            labels = cluster_class_means(means, smallest, rng)
            values |= {"mode": "sums", "numbers": length, "epsilon": self._sample_epsilon, "delta": self.delta}
            return labels, values | {"note": privacy_note(values)}
        labels = cluster(messages, self.clustering, smallest, rng, flips=how["flip"])
        values |= {"mode": self.clustering, "bits": length, "flip": how["flip"]}
        values["epsilon"] = length * bit_epsilon(how["flip"])
        note = privacy_note(values)
        if not labels.any():
            note += (
                " By bits one cluster was found; method.message = 'sums' finds clusters of few clients, too, if these "
                "have about 100 labelled samples or more."
            )
        return labels, values | {"note": note}

    @staticmethod
    def nearest(result: Mapping[str, Any], messages: Tensor) -> Tensor:
        nearest = nearest_by_class_means if "deviation" in result else OneShotMethod.nearest
        return nearest(result, messages)

    @staticmethod
    def unseen_message(client: Client, result: Mapping[str, Any]) -> Tensor:
        return unseen_class_sums(client, result) if "deviation" in result else message_of(client, result)[0]

    @staticmethod
    def true_bits(client: Client, result: Mapping[str, Any]) -> Tensor:
        """Return a client's bits ``(segments, width)`` before randomisation."""
        return true_bits(client, result)[0]

    def guards_samples(self) -> bool:
        return self.message == "sums"


def privacy_note(values: Mapping[str, Any]) -> str:
    """Return what clients sent, and the privacy guarantee of it, by the record's values."""
    sent, unit = f"{values.get('numbers', 0):,} numbers, sums with noise", "one sample"
    if "bits" in values:
        sent, unit = f"{values['bits']:,} bits, each flipped with probability {values['flip']:.3g}", "a whole message"
    if math.isinf(values["epsilon"]):
        return f"Each client sent {sent}, with no privacy guarantee; see docs/privacy.md."
    budget = f"epsilon {values['epsilon']:,.3g}" + (f" and delta {values['delta']:g}" if "delta" in values else "")
    meaning = f"{budget} for {unit}"
    if values["epsilon"] > MEANINGFUL_EPSILON:
        meaning = f"no meaningful guarantee ({meaning})"
    covers = "It covers these messages alone, not the models that clients train."
    if values["noise_source"] == "the run's seed":
        covers += " Noise of simulated clients follows from the run's seed, and hides nothing from who knows it."
    return f"Each client sent {sent}. Privacy: {meaning}. {covers} See docs/privacy.md."


# Tasks of the clients: train the encoder, and describe their data in a few bits.

ANSWERS, FILLING = LASTING + "answers", LASTING + "filling"
"""Keys of a client's state: its random answer for either value of every bit, and the codes of classes it does not have.
"""


@client_task(takes={}, holds={"unit": is_flag}, sends="Whether all values lie between 0 and 1", fewest="none")
def send_range(client: Client, payload: Payload) -> Payload:
    """Report whether all values of a client's samples lie in [0, 1]."""
    return {"unit": bool(client.x.min() >= 0) and bool(client.x.max() <= 1)}


@training_task(
    takes={"encoder": ENCODER, "vector": updates("size"), "training": LOCAL_TRAINING, "steps": counts_to(MANY, 0)}
)
def train_encoder(client: Client, payload: Payload) -> Training:
    """Train the autoencoder on the client's samples; report the update, their number and the mean error."""
    training = LocalTraining(**payload["training"])
    per_epoch = math.ceil(len(client) / training.batch_size)
    training = replace(training, epochs=max(training.epochs, math.ceil(payload["steps"] / per_epoch)))
    encoder = Encoder.of(payload["encoder"])
    return trained_update(Job(encoder, payload["vector"], client.x, client.x, client.rng, training))


@client_task(
    takes={
        "encoder": ENCODER, "vector": updates("size"), "segments": counts_to(MAX_CLASSES), "flip": within(0, 0.5),
    },
    holds={"bits": uint8(None)},
    sends="For each class some bits that say what its rows are like, as a network sees them",
)  # fmt: skip
def embed(client: Client, payload: Payload) -> Payload:
    """Report the client's message of randomised bits (algorithm 1), as ``bits``, eight to a byte.

    Messages of all clients have equal length. Random answers are sampled once and remembered, so that many messages
    reveal no more than one while the data stay the same.
    """
    message, remembered = message_of(client, payload)
    client.state.update(remembered)
    return {"bits": packed(message)}


def message_of(client: Client, how: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return a client's randomised bits, uint8 ``(segments * width,)``, and the random draws to repeat them.

    `how` has ``encoder`` and ``vector``, ``segments`` and ``flip``, see `EmbeddingMethod`.
    """
    segments, remembered = true_bits(client, how)
    message, answers = memorised(segments.flatten(), how["flip"], client.state.get(ANSWERS), client.noise)
    return message, remembered | {ANSWERS: answers}


def true_bits(client: Client, how: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return a client's bits ``(segments, width)`` before randomisation, and the draws it must remember."""
    encoder = Encoder.of(how["encoder"])
    filling = filling_of(client, FILLING, how["segments"], encoder.width)
    segments = means_by_class(client, filling, lambda x: encoder.codes(how["vector"], x))
    return binary(segments), {FILLING: filling}
