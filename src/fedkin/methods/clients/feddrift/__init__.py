"""FedDrift: as many models as there are concepts at a time, while clients drift."""
