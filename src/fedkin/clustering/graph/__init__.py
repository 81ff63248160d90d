"""The graph of micro-clusters, and its cut into clusters: kin-graph without clients."""
