"""AFCL: federated clustering by competing seeds that merge, so that the number of clusters is found."""
