"""Benchmark of all methods over scenarios and seeds, with results that are appended and ranked."""

from fedkin.studies.benchmark.benchmark import BenchmarkOptions, benchmarked
from fedkin.studies.benchmark.ranks import Ranking, ranked

__all__ = ["BenchmarkOptions", "Ranking", "benchmarked", "ranked"]
