"""kin-graph: clustering by communities of a graph of all clients' micro-clusters."""
