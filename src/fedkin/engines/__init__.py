"""Ways to ask clients: in this process, or over a network."""
