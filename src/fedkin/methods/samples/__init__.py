"""Methods that give every sample of every client a cluster."""
