"""Pictures of digits, and an encoder that has learnt what they look like."""

from functools import cache

from torch import Tensor

from fedkin.core.seeds import derive_generator
from fedkin.data.sources import load
from fedkin.nn.descent import LocalTraining, train_locally
from fedkin.nn.encoder import Encoder
from fedkin.studies.attack.attack import KnownEncoder


@cache
def digits() -> tuple[Tensor, Tensor]:
    """Pictures in [0, 1] and their classes."""
    data = load("digits")
    assert data.y is not None
    return data.x, data.y


@cache
def learnt() -> KnownEncoder:
    """A small encoder, trained for a moment."""
    x, _ = digits()
    encoder = Encoder.of({"name": "dense-autoencoder", "shape": list(x.shape[1:]), "output": "sigmoid"})
    how = LocalTraining(epochs=10, batch_size=32, optimizer="adam", learning_rate=3e-3)
    vector, _ = train_locally(encoder, encoder.initial(derive_generator(0)), x, x, derive_generator(1), how)
    return KnownEncoder(encoder, vector)


@cache
def convolutional() -> KnownEncoder:
    """One with batch norms, untrained, for pictures of 16 x 16, by statistics of the batch."""
    encoder = Encoder.of({"name": "conv-autoencoder", "shape": [1, 16, 16], "output": "sigmoid"})
    return KnownEncoder(encoder, encoder.initial(derive_generator(0)), batch_statistics=True)
