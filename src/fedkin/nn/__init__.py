"""Models: autoencoders as stacked parameters, and classifiers as torch modules, by name."""
