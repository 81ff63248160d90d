"""Engines, which carry a method's tasks to clients: in this process or over Flower."""
