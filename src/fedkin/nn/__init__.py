"""Models: autoencoders as stacked parameters, and classifiers as torch modules, by name.

Their names stand here, as the command line lists them without torch.
"""

MODELS: dict[str, str] = {
    "perceptron": "One hidden layer of 200; for vectors, and images seen as vectors.",
    "gradient-loss-mlp": "Two hidden layers, 512-128, or 2048-512 for images with colour.",
    "gradient-loss-cnn": "Two convolutions and two linear layers, or LeNet's shape for images with colour.",
    "lenet5": "Two convolutions and three linear layers; for images from 4 x 4 pixels.",
    "resnet18": "ResNet-18 for small images, batch normalisation.",
    "resnet34": "ResNet-34 for small images, batch normalisation.",
    "resnet18-gn": "ResNet-18 for small images, group normalisation.",
    "resnet18-imagenet": "ResNet-18 as for ImageNet: images shrink by four before the first block.",
}
"""Description of each built-in classifier, by name. Models that `fedkin.nn.modules.register` adds are not listed."""

AUTOENCODERS: dict[str, str] = {
    "dense-autoencoder": "Fully connected, 784-50-20 and back; for vectors and grey images.",
    "conv-autoencoder": "Three convolutions, batch normalisation, and back; for images with sides in multiples of 8.",
}
"""Description of each autoencoder whose codes describe a client's data, by name."""
