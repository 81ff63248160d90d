"""Methods of clustered federated learning, one file per paper: they cluster clients and train a model per cluster."""
