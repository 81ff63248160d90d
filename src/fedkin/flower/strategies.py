"""Flower strategies by name: each runs a method of `fedkin.methods.clients`."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor

from fedkin.core import FedkinError
from fedkin.flower.grid_federation import GridFederation
from fedkin.flower.strategy import ClusterStrategy
from fedkin.methods.clients.client_method import ClientMethodState
from fedkin.nn.modules import Classifier


class FedAvgStrategy(ClusterStrategy, method="fedavg"):
    """Strategy of FedAvg: one model for all nodes (McMahan et al. 2017), the baseline for clusters."""


class FedOptStrategy(ClusterStrategy, method="fedopt"):
    """Strategy of FedOpt: one model for all nodes, with an adaptive optimiser at the server (Reddi et al. 2021)."""


class OCFLStrategy(ClusterStrategy, method="ocfl"):
    """Strategy of OCFL: find clusters and their number once, as soon as the nodes' updates diverge (Zuziak et al.)."""


class SattlerStrategy(ClusterStrategy, method="sattler"):
    """Strategy of CFL: bipartition clusters recursively where one model no longer fits all (Sattler et al. 2020).

    With `cache`, nodes of a cluster that was cut also evaluate its earlier models, once, after the last round.
    """


class HierarchicalStrategy(ClusterStrategy, method="hierarchical"):
    """Strategy of FL+HC: cluster nodes once, by a dendrogram of updates cut at a given height (Briggs et al. 2020)."""


class FeSEMStrategy(ClusterStrategy, method="fesem"):
    """Strategy of FeSEM: assign each node to the nearest of `n_clusters` models in every round (Long et al. 2023)."""


class FedGroupStrategy(ClusterStrategy, method="fedgroup"):
    """Strategy of FedGroup: cluster nodes once, by the decomposed cosine similarity of updates (Duan et al. 2021)."""


class IFCAStrategy(ClusterStrategy, method="ifca"):
    """Strategy of IFCA: each node trains the one of `n_clusters` models that fits it best (Ghosh et al. 2020).

    The app's evaluation reports a loss, `eval_loss_key`. Models are chosen by that loss, so on the samples the app
    evaluates with. A round is `n_clusters` evaluations at every node and then a training: two exchanges, where fedkin's
    own client app needs one.

    With one model as `initial_arrays` the others are seeded as in k-means++: before the first round one node after
    another trains it, each sampled in proportion to its loss under the models so far. With a list of `n_clusters`
    models, training begins from these; they should differ.
    """

    _fixed = ("identity", "averaging", "start")  # all, of models, and by initial_arrays

    def begin(self, fed: GridFederation, method: Any, models: Tensor) -> ClientMethodState:
        """Return the initial state, with models that are seeded or given."""
        if len(models) == 1:
            state: ClientMethodState = dataclasses.replace(method, start="kmeans").init(fed)
            return state
        state = self._with_models(fed, method, models, ", or one")
        models = state.models.clone()
        shared = Classifier.of(state.module).leading(method.shared_layers)
        models[:, :shared] = models[0, :shared]
        return dataclasses.replace(state, models=models)


class GradientLossStrategy(ClusterStrategy, method="gradient-loss"):
    """Strategy by loss and gradient: a node joins a model of low loss that moves as its training does (Lin et al.).

    The app's evaluation reports a loss, `eval_loss_key`. Its whole training stands for the paper's one gradient step.
    In a round a node evaluates all models and trains all of them, so it costs `n_clusters` times FedAvg's computing;
    fedkin's own client app sends one message instead.

    `initial_arrays` is a list of `n_clusters` models that differ.
    """

    _fixed = ("similarity",)  # by cosines: the distance of losses and updates needs the client app's learning rate
    _several = True


class CFLGPStrategy(ClusterStrategy, method="cfl-gp"):
    """Strategy of CFL-GP: spectral clustering of nodes by accumulated updates (Kim, Kim, de Veciana 2024).

    A node that comes when clusters are no longer formed joins by its `eval_loss_key` under each model. In a clustering
    round most nodes train twice: their cluster's model, and one that all nodes train.
    """


class CLoVEStrategy(ClusterStrategy, method="clove"):
    """Strategy of CLoVE: k-means of the nodes' losses under `n_clusters` models, in every round (Bhatia et al. 2025).

    The app's evaluation reports a loss, `eval_loss_key`; a node evaluates all models in a round in which it is
    clustered. `initial_arrays` is a list of `n_clusters` models that differ.
    """

    _several = True


class EmbeddingStrategy(ClusterStrategy, method="embedding"):
    """Strategy of client embeddings: cluster nodes before training by randomised bits (Prigent et al. 2024).

    Needs a client app that also describes its data: ``app.query("fedkin")(fedkin.flower.describes(load))``. Steps of
    pre-training and the one of messages come before the first round. Flipped bits are remembered, so that repeated
    messages reveal no more; an app on Flower remembers them for one run only.
    """

    _describes = "describes(load)"
    _unlabelled = ("form", "prototypes")


class LADDStrategy(ClusterStrategy, method="ladd"):
    """Strategy of LADD: cluster nodes before training by the style of their images (Shenaj et al. 2023).

    Needs a client app that also describes its data, as `EmbeddingStrategy` does; styles are sent as they are.
    """

    _describes = "describes(load)"
    _unlabelled = ("style", "client")


class PACFLStrategy(ClusterStrategy, method="pacfl"):
    """Strategy of PACFL: cluster nodes before training by principal angles of their data (Vahidian et al. 2023).

    Needs a client app that also describes its data, as `EmbeddingStrategy` does; singular vectors are sent as they are.
    """

    _describes = "describes(load)"
    _unlabelled = ("bases", "client")


class FLUXStrategy(ClusterStrategy, method="flux"):
    """Strategy of FLUX: cluster nodes by moments of latents after a few rounds of one model (Fenoglio et al. 2025).

    Needs a client app that also describes its data by its own network:
    ``app.query("fedkin")(fedkin.flower.describes(load, network=Net))``; moments are sent as they are. Latents are what
    the network's last linear layer is given, whose matrix must be the last of the arrays.
    """

    _describes = "describes(load, network=Net)"
    _fixed = ("latents",)  # the last layer's: arrays do not say where the first linear one begins

    def begin(self, fed: GridFederation, method: Any, models: Tensor) -> ClientMethodState:
        """Return the initial state, with as many directions as the network's latent width."""
        width = fed.layout.last_width
        if not width:
            raise FedkinError("FLUXStrategy needs a network with a linear layer; initial_arrays has no matrix.")
        state: Any = super().begin(fed, method, models)
        begun: ClientMethodState = dataclasses.replace(state, projection=method.directions(fed, width))
        return begun


class FedDriftStrategy(ClusterStrategy, method="feddrift"):
    """Strategy of FedDrift: cluster nodes again every few rounds by all models' errors (Jothimurugesan et al. 2023).

    The app's evaluation reports an accuracy in [0, 1], `eval_accuracy_key`: nodes judge models on the samples that the
    app evaluates with. With ``start="alone"`` every node begins with a model of its own, so that at the first
    clustering each evaluates as many models as there are nodes.
    """

    _fixed = ("held_out",)  # the samples that the client app evaluates with


class FedRCStrategy(ClusterStrategy, method="fedrc"):
    """Strategy of FedRC: soft clusters; every node trains all `n_clusters` models (Guo, Tang, Lin 2024).

    A client app trains without weights of samples, so fedkin trains the client app's network in its place:
    ``app.query("fedkin")(fedkin.flower.describes(load, network=Net))``. How nodes train is therefore given here, as
    `learning_rate`, `local_epochs` and the like; the client app's own training is not called, its evaluation is, with
    the model of the cluster that a node belongs to most. Mods of the client app, such as `LocalDpMod`, do not cover
    this training. `initial_arrays` is a list of `n_clusters` models that differ.
    """

    _describes = "describes(load, network=Net)"
    _trains = True
    _fixed = ("recipe",)  # a registered one, in processes of fedkin's own
    _several = True
