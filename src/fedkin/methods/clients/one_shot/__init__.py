"""Base of methods that cluster clients once, before training, by one message from each."""
