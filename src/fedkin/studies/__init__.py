"""Studies made of many runs: comparisons, benchmarks, reproductions of papers, costs and attacks."""
