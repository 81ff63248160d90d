"""kin-graph: communities of a graph of all clients' micro-clusters."""
