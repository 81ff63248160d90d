"""FedCRef: clients exchange models of their local clusters and refine the clusters together."""
