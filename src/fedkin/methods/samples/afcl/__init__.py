"""AFCL: seeds that come together until they show how many clusters there are."""
