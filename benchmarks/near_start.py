"""gradient-loss from models that start near one another, for `gradient_loss_map.py`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedkin.core import Federation
from fedkin.core.method import Fraction
from fedkin.methods.clients.gradient_loss import GradientLossMethod, GradientLossState


@dataclass(frozen=True)
class NearStart(GradientLossMethod):
    """As `GradientLossMethod`, but the first models lie close together, so that losses hardly differ at first.

    Attributes
    ----------
    apart : float
        Each of the K draws is moved to the first of them until so much of the distance is left, in [0, 1]; 1 leaves
        them where they are.
    """

    apart: Fraction = 0.01

    def init(self, fed: Federation) -> GradientLossState:
        """Return the K models, most of the way to the first one."""
        state = super().init(fed)
        first = state.models[:1]
        return replace(state, models=first + self.apart * (state.models - first))
