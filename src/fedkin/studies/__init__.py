"""Studies made of many runs: comparisons, reproductions of papers and other grids, costs and attacks."""
