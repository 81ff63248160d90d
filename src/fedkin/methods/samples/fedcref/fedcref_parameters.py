"""Hyper-parameters of FedCRef."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Interval

from fedkin.core import Payload
from fedkin.core.method import Count, Fraction, Oracle, Positive
from fedkin.methods.samples.sample_method import SampleMethod
from fedkin.nn.aggregation import Aggregation


@dataclass(frozen=True)
class FedCRefParameters(SampleMethod):
    """Hyper-parameters of FedCRef.

    Attributes
    ----------
    initial : {"auto", "given", "kmeans", "embedding", "dec", "kin-graph"}
        How a client makes its first clusters; "auto" takes the labels a client brings, else "embedding". "kin-graph"
        clusters the samples of all clients first (`kingraph`); local clusters are the clusters with enough of a
        client's samples; see `hold`.
    hold : float
        With ``initial="kin-graph"``, for clients with at least two thirds of all its clusters: a sample leaves its
        cluster only for a model whose error is lower by this fraction, and clusters with a quarter of
        `min_fraction` stay. There kin-graph's clusters are better than those that models find. 0 treats all clients
        alike.
    n_clusters : int or {"auto", "given"}
        Local clusters per client: a number; "given", each client's own number; or "auto", the client's estimate,
        revised in every refinement.
    max_clusters : int
        Maximum of the first estimate.
    min_fraction : float
        With ``n_clusters="auto"``: a model gets a local cluster if the samples that choose it are at least this
        fraction of an average local cluster.
    hidden : tuple of int, optional
        Hidden widths and code of the autoencoder; by default those of `widths_for`, (100, 64, 32) for 784 features.
    local_epochs : int
        Epochs of a local cluster's model (Table 2: 20; Fashion-MNIST 30).
    rounds : int
        Rounds of federated averaging per community (paper: 15).
    first_epochs : int
        Local epochs in the first of these rounds (the authors' code: 2; the paper is silent).
    round_epochs : int
        Local epochs in each later round (the authors' code: 7; the paper is silent).
    min_steps : int
        Minimum number of optimiser steps of a local cluster's model, and of a community's model at each member, over
        all rounds. It matters only with few samples.
    continuity : bool
        Whether models start from those selected in the last refinement; by default, as in the authors' code, they are
        initialised anew.
    batch_size : int
        Samples per optimiser step.
    learning_rate : float
        Adam's learning rate.
    associations : {"held-out", "paper", "kin-graph", "perfect"}
        The rule that associates local clusters. "kin-graph" associates those whose samples mostly have the same cluster
        there, without an exchange of models. "perfect" is an upper bound for evaluations and needs an `oracle`.
    candidates : int or "all"
        Number of local clusters of other clients that each is compared with by "held-out" and "paper": "all", or those
        nearest by mean and standard deviation of the features, and those at 2, 4, 8, ... times this rank. With a
        number, clients also send these means and deviations, and models and time grow nearly with the number of clients
        instead of its square.
    cut : float, optional
        For "held-out": average loss rate below which local clusters merge; by default chosen from the merge heights.
    percentile : float
        For "paper": alpha, in per cent.
    threshold : float
        For "paper": theta.
    safeguard : {"auto", "unmatched", "all"}
        Which of a client's own models compete in the refinement; "auto" is "unmatched" with "held-out", else "all".
    leftovers : {"best", "renumbered"}
        Where samples go that chose none of the models selected in the refinement: to the "best" of these, as in the
        paper; or "renumbered", as by a mistake in the authors' code, mostly to another, which its figures contain.
    stability : float
        The paper's tau: a client is stable once at least this fraction of its samples stays in its local cluster.
    ending : {"either", "both", "graph"}
        When a run ends: "either" once all clients are stable or the graph is settled, as the paper's text says; "both"
        once both are true, as its Algorithm 1 is printed; "graph" once the graph is settled, as in the authors' code.
    tolerance : float
        The graph is settled once the numbers of communities and of unmatched local clusters both changed by at most
        this fraction, `patience` times in a row.
    patience : int
        Number of such iterations.
    max_iterations : int
        Maximum number of iterations.
    aggregation : {"mean", "median", "trimmed-mean"}
        How the models of a community's members are combined: by their mean weighted by samples, or by the
        coordinate-wise median or trimmed mean, without a fifth of the values at either end, in which members count
        equally.
    oracle : callable, optional
        Only with ``associations="perfect"``.
    """

    initial: Literal["auto", "given", "kmeans", "embedding", "dec", "kin-graph"] = "auto"
    hold: Fraction = 0.3
    n_clusters: Count | Literal["auto", "given"] = "auto"
    max_clusters: Annotated[int, Ge(2)] = 10
    min_fraction: Fraction = 0.5
    hidden: tuple[Count, ...] | None = None
    local_epochs: Count = 20
    rounds: Count = 15
    first_epochs: Count = 2
    round_epochs: Count = 7
    min_steps: Annotated[int, Ge(0)] = 300
    continuity: bool = False
    batch_size: Count = 32
    learning_rate: Positive = 1e-3
    associations: Literal["held-out", "paper", "kin-graph", "perfect"] = "held-out"
    candidates: Count | Literal["all"] = "all"
    cut: Fraction | None = None
    percentile: Annotated[float, Interval(ge=0, le=100)] = 75.0
    threshold: Fraction = 0.2
    safeguard: Literal["auto", "unmatched", "all"] = "auto"
    leftovers: Literal["best", "renumbered"] = "best"
    stability: Fraction = 0.95
    ending: Literal["either", "both", "graph"] = "either"
    tolerance: Annotated[float, Ge(0)] = 0.1
    patience: Count = 3
    max_iterations: Count = 10
    aggregation: Aggregation = "mean"
    oracle: Oracle | None = None

    def start_options(self, total: int = 0) -> Payload:
        """Return the settings by which clients find first local clusters; `total` is kin-graph's number of clusters."""
        return {
            "initial": self.initial,
            "n_clusters": self.n_clusters,
            "max_clusters": self.max_clusters,
            "min_fraction": self.min_fraction,
            "hold": self.hold,
            "total": total,
        }
