"""The Flower engine: a federation whose clients are nodes of a Flower grid, simulated or real."""
