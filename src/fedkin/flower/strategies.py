"""The strategies by name: each runs a method of `fedkin.methods.clients` over Flower."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from fedkin.core import FedkinError
from fedkin.flower.grid_federation import GridFederation
from fedkin.flower.strategy import ClusterStrategy
from fedkin.methods.clients import (
    cfl_gp,
    clove,
    fedavg,
    fedgroup,
    fedopt,
    fedrc,
    fesem,
    flux,
    gradient_loss,
    hierarchical,
    ifca,
    ladd,
    ocfl,
    pacfl,
    sattler,
)
from fedkin.methods.clients.client_method import ClientMethodState
from fedkin.methods.clients.embedding import embedding
from fedkin.methods.clients.feddrift import feddrift
from fedkin.nn.classifier import Classifier

_ALWAYS = "always '{}' with a client app that is not fedkin's own"


class FedAvgStrategy(ClusterStrategy, method=fedavg.FedAvgMethod):
    """Trains one model for all nodes (McMahan et al. 2017): the baseline that clusters are compared with.

    See `ClusterStrategy` for all parameters.
    """


class FedOptStrategy(ClusterStrategy, method=fedopt.FedOptMethod):
    """Trains one model for all nodes with an adaptive optimiser at the server (Reddi et al. 2021); no clusters.

    See `ClusterStrategy`, and `fedkin.methods.clients.fedopt.FedOptMethod` for its parameters.
    """


class OCFLStrategy(ClusterStrategy, method=ocfl.OCFLMethod):
    """Finds clusters and their number once, as soon as the nodes' updates diverge (Zuziak et al.).

    Works with any app that works with FedAvg, and sends what FedAvg sends. See `ClusterStrategy`, and
    `fedkin.methods.clients.ocfl.OCFLMethod` for its parameters.
    """


class SattlerStrategy(ClusterStrategy, method=sattler.SattlerMethod):
    """Bipartitions clusters recursively where one model no longer fits all nodes (Sattler et al. 2020).

    Works with any app that works with FedAvg, and sends what FedAvg sends. With `cache`, nodes of a cluster
    that was cut also evaluate its earlier models, once, after the last round. See `ClusterStrategy`, and
    `fedkin.methods.clients.sattler.SattlerMethod` for its parameters.
    """


class HierarchicalStrategy(ClusterStrategy, method=hierarchical.HierarchicalMethod):
    """Clusters nodes once, by a tree of their updates cut at a given height (Briggs et al. 2020).

    Works with any app that works with FedAvg, and sends what FedAvg sends. See `ClusterStrategy`, and
    `fedkin.methods.clients.hierarchical.HierarchicalMethod` for its parameters.
    """


class FeSEMStrategy(ClusterStrategy, method=fesem.FeSEMMethod):
    """Puts each node to the nearest of `n_clusters` centres of models, in every round (Long et al. 2023).

    Works with any app that works with FedAvg, and sends what FedAvg sends. See `ClusterStrategy`, and
    `fedkin.methods.clients.fesem.FeSEMMethod` for its parameters.
    """


class FedGroupStrategy(ClusterStrategy, method=fedgroup.FedGroupMethod):
    """Clusters nodes once, by their first updates' decomposed similarity (Duan et al. 2021).

    Works with any app that works with FedAvg, and sends what FedAvg sends. See `ClusterStrategy`, and
    `fedkin.methods.clients.fedgroup.FedGroupMethod` for its parameters.
    """


class IFCAStrategy(ClusterStrategy, method=ifca.IFCAMethod):
    """Keeps `n_clusters` models; each node trains the one that fits it best in every round (Ghosh et al. 2020).

    Works with any app that works with FedAvg and whose evaluation reports a loss, `eval_loss_key`. Models are chosen
    by that loss, so on the samples the app evaluates with. A round is `n_clusters` evaluations at every node and then a
    training: two exchanges, where fedkin's own client app needs one.

    With one model as `initial_arrays` the others are seeded as in k-means++: before the first round one node after
    another trains it, each sampled in proportion to its loss under the models so far. With a list of
    `n_clusters` models, training begins from these; they should differ. See `ClusterStrategy`, and
    `fedkin.methods.clients.ifca.IFCAMethod` for its parameters.
    """

    _fixed: ClassVar[Mapping[str, str]] = {
        "identity": _ALWAYS.format("all"),
        "averaging": _ALWAYS.format("models"),
        "start": "given by initial_arrays of start(): one model for 'kmeans', or a list of n_clusters",
    }

    def begin(self, fed: GridFederation, method: Any, models: Tensor) -> ClientMethodState:
        """Return the first state, with models that are seeded or given."""
        if len(models) == 1:
            state: ClientMethodState = dataclasses.replace(method, start="kmeans").init(fed)
            return state
        state = _given(method, fed, models, ", or one")
        models = state.models.clone()
        shared = Classifier.of(state.module).leading(method.shared_layers)
        models[:, :shared] = models[0, :shared]
        return dataclasses.replace(state, models=models)


class GradientLossStrategy(ClusterStrategy, method=gradient_loss.GradientLossMethod):
    """Keeps `n_clusters` models; a node joins one with a low loss that moves as the node's training does (Lin et al.).

    Works with any app that works with FedAvg and whose evaluation reports a loss, `eval_loss_key`. The client app's
    whole training stands for the paper's one gradient step. In a round a node evaluates all models and trains all of
    them, so it costs `n_clusters` times FedAvg's computing; fedkin's own client app sends one message instead.

    `initial_arrays` is a list of `n_clusters` models that differ. See `ClusterStrategy`, and
    `fedkin.methods.clients.gradient_loss.GradientLossMethod` for its parameters.
    """

    _fixed: ClassVar[Mapping[str, str]] = {
        "similarity": "always 'cosine', since the distance of the two needs the client app's learning rate",
    }

    def begin(self, fed: GridFederation, method: Any, models: Tensor) -> ClientMethodState:
        """Return the first state, with the models that are given."""
        return _given(method, fed, models)


class CFLGPStrategy(ClusterStrategy, method=cfl_gp.CFLGPMethod):
    """Clusters nodes spectrally by updates accumulated over rounds (Kim, Kim, de Veciana 2024).

    Works with any app that works with FedAvg; a node that comes when clusters are no longer formed joins by its
    `eval_loss_key` under each model. In a clustering round most nodes train twice: their cluster's model, and one that
    all nodes train. See `ClusterStrategy`, and `fedkin.methods.clients.cfl_gp.CFLGPMethod` for its parameters.
    """


class CLoVEStrategy(ClusterStrategy, method=clove.CLoVEMethod):
    """Clusters nodes by k-means of their losses under `n_clusters` models, in every round.

    Works with any app that works with FedAvg and whose evaluation reports a loss, `eval_loss_key`; a node evaluates all
    models in a round in which it is clustered. `initial_arrays` is a list of `n_clusters` models that differ. See
    `ClusterStrategy`, and `fedkin.methods.clients.clove.CLoVEMethod` for its parameters.
    """

    def begin(self, fed: GridFederation, method: Any, models: Tensor) -> ClientMethodState:
        """Return the first state, with the models that are given."""
        return _given(method, fed, models)


def _given(method: Any, fed: GridFederation, models: Tensor, otherwise: str = "") -> ClientMethodState:
    """Return the first state with the models that were given to `start`, one for each cluster."""
    if len(models) != method.n_clusters:
        raise FedkinError(
            f"initial_arrays holds {len(models)} model{'s'[: len(models) != 1]}; n_clusters is {method.n_clusters}, "
            f"so give as many{otherwise}."
        )
    state: ClientMethodState = method.init(fed)
    return dataclasses.replace(state, models=models)


class EmbeddingStrategy(ClusterStrategy, method=embedding.EmbeddingMethod):
    """Clusters nodes before training, by a few randomised bits that each sends once (Prigent et al. 2024).

    Needs a client app that also describes its data: ``app.query("fedkin")(fedkin.flower.describes(load))``. Steps of
    pre-training and the one of messages come before the first round. Flipped bits are remembered, so that repeated
    messages reveal no more; an app on Flower remembers them for one run only. See `ClusterStrategy`, and
    `fedkin.methods.clients.embedding.embedding.EmbeddingMethod` for its parameters.
    """

    _asks = "describes(load)"
    _unlabelled = ("form", "prototypes")


class LADDStrategy(ClusterStrategy, method=ladd.LADDMethod):
    """Clusters nodes before training, by the style of their images (Shenaj et al. 2023).

    Needs a client app that also describes its data, as `EmbeddingStrategy` does; styles are sent as they are. See
    `ClusterStrategy`, and `fedkin.methods.clients.ladd.LADDMethod` for its parameters.
    """

    _asks = "describes(load)"
    _unlabelled = ("style", "client")


class PACFLStrategy(ClusterStrategy, method=pacfl.PACFLMethod):
    """Clusters nodes before training, by the angles between the subspaces of their data (Vahidian et al. 2023).

    Needs a client app that also describes its data, as `EmbeddingStrategy` does; singular vectors are sent as they are.
    See `ClusterStrategy`, and `fedkin.methods.clients.pacfl.PACFLMethod` for its parameters.
    """

    _asks = "describes(load)"
    _unlabelled = ("bases", "client")


class FLUXStrategy(ClusterStrategy, method=flux.FLUXMethod):
    """Clusters nodes by moments of their data's latents, after a few rounds of one model (Fenoglio et al. 2025).

    Needs a client app that also describes its data by its own network:
    ``app.query("fedkin")(fedkin.flower.describes(load, network=Net))``; moments are sent as they are. Latents are what
    the network's last linear layer is given, whose matrix must be the last of the arrays. See `ClusterStrategy`, and
    `fedkin.methods.clients.flux.FLUXMethod` for its parameters.
    """

    _asks = "describes(load, network=Net)"

    def begin(self, fed: GridFederation, method: Any, models: Tensor) -> ClientMethodState:
        """Return the first state, with as many directions as the network's latents are wide."""
        width = fed.layout.last_width
        if not width:
            raise FedkinError("FLUXStrategy needs a network with a linear layer; initial_arrays has no matrix.")
        state: Any = super().begin(fed, method, models)
        begun: ClientMethodState = dataclasses.replace(state, projection=method.directions(fed, width))
        return begun


class FedDriftStrategy(ClusterStrategy, method=feddrift.FedDriftMethod):
    """Clusters nodes again every few rounds by the errors of all models on their data (Jothimurugesan et al. 2023).

    Works with any app that works with FedAvg and whose evaluation reports an accuracy in [0, 1], `eval_accuracy_key`:
    nodes judge models on the samples that the app evaluates with. With ``start="alone"`` every node begins with a model
    of its own, so that at the first clustering each evaluates as many models as there are nodes. See `ClusterStrategy`,
    and `fedkin.methods.clients.feddrift.feddrift.FedDriftMethod` for its parameters.
    """

    _fixed: ClassVar[Mapping[str, str]] = {"held_out": "the samples that the client app evaluates with"}


class FedRCStrategy(ClusterStrategy, method=fedrc.FedRCMethod):
    """Trains `n_clusters` models by all nodes, each sample weighted by its membership (Guo, Tang, Lin 2024).

    A client app trains without weights of samples, so fedkin trains the client app's network in its place:
    ``app.query("fedkin")(fedkin.flower.describes(load, network=Net))``. How nodes train is therefore given here, as
    `learning_rate`, `local_epochs` and the like; the client app's own training is not called, its evaluation is, with
    the model of the cluster that a node belongs to most. Mods of the client app, such as `LocalDpMod`, do not cover
    this training. `initial_arrays` is a list of `n_clusters` models that differ. See `ClusterStrategy`, and
    `fedkin.methods.clients.fedrc.FedRCMethod` for its parameters.
    """

    _asks = "describes(load, network=Net)"
    _trains = True
    _fixed: ClassVar[Mapping[str, str]] = {"recipe": "for fedkin's own client app"}

    def begin(self, fed: GridFederation, method: Any, models: Tensor) -> ClientMethodState:
        """Return the first state, with the models that are given."""
        return _given(method, fed, models)
