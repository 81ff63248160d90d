"""Trackers that send a run's records to TensorBoard, MLflow and Weights & Biases."""

from fedkin.experiment.tracking.trackers import NOTES, Trackers, check_installed

__all__ = ["NOTES", "Trackers", "check_installed"]
