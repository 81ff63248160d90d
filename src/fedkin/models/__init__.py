"""Models, each as plain functions of stacked parameters."""
