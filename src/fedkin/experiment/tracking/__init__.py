"""Records of a run, told to tools that people compare runs with: TensorBoard, MLflow and Weights & Biases."""

from fedkin.experiment.tracking.trackers import NOTES, Trackers, check_installed

__all__ = ["NOTES", "Trackers", "check_installed"]
