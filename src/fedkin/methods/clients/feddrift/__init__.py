"""FedDrift: one model per concept of the data, while clients' data drift."""
