"""Methods of federated clustering of samples: each assigns every sample of every client to a cluster."""
