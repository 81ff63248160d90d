"""Training many models at once, and aggregating them."""
