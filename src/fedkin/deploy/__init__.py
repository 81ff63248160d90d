"""Deployment on a real federation: Flower carries the messages; every site keeps its data, memory and results."""
