"""The Flower engine: a federation whose clients are nodes of a Flower grid, simulated or real.

The strategies for an app of one's own are in `fedkin.flower`.
"""

from fedkin.engines.flower_engine.version import check_flower

check_flower()
