"""The FedAvg of Flower's PyTorch quickstart on the workloads of ``benchmarks/engines.py``; free of fedkin."""
