"""A module of methods that break the contract, each in one way, as its author would write it."""

BROKEN = """
import torch
from dataclasses import dataclass

from fedkin.core import Record, client_task
from fedkin.methods.samples.kfed import KFedMethod


class Bare(KFedMethod):
    alpha: float = 1.0


class Renamed(KFedMethod):
    traits = KFedMethod.traits.replace(cost="costly")


@dataclass(frozen=True)
class Forgetful(KFedMethod):
    def step(self, fed, state):
        return state.next(finished=True), Record([0])


@dataclass(frozen=True)
class Floats(KFedMethod):
    def init(self, fed):
        fed.ask(as_floats, fed.all())
        return super().init(fed)


@dataclass(frozen=True)
class Beyond(KFedMethod):
    def step(self, fed, state):
        after, record = super().step(fed, state)
        fed.ask(beyond, fed.all())
        return after, record


@dataclass(frozen=True)
class Uncounted(KFedMethod):
    def result(self, state):
        return {"centroids": state.centroids, "features": state.features}


@dataclass(frozen=True)
class Featureless(KFedMethod):
    def result(self, state):
        return {"n_clusters": 3, "centroids": state.centroids}


@dataclass(frozen=True)
class Arrays(KFedMethod):
    def init(self, fed):
        fed.ask_until_all_reply(as_array, {})
        return super().init(fed)


@dataclass(frozen=True)
class Keeping(KFedMethod):
    def init(self, fed):
        fed.ask_until_all_reply(keeping, {})
        return super().init(fed)


@client_task
def as_array(client, payload):
    return {"means": client.x.mean(0).numpy()}


@client_task
def keeping(client, payload):
    client.state["seen"] = {"samples": len(client)}
    return {}


@client_task
def as_floats(client, payload):
    client.state["clusters"] = torch.ones(len(client))
    return {}


@client_task
def beyond(client, payload):
    client.state["clusters"] = client.state["clusters"] + 7
    return {}
"""
