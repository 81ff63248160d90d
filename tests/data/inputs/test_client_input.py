"""One client's data as lists of pictures or paths, and forms that are refused in a sentence."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fedkin.core import FedkinError
from fedkin.data.arrays import as_tensor
from fedkin.data.inputs import client_input, federation_input
from fedkin.data.options import TableOptions
from fedkin.data.sources import load
from fedkin.data.tables import frame_to_table

RNG = np.random.default_rng(0)


def pictures(count: int, shape: tuple[int, ...]) -> list[Image.Image]:
    return [Image.fromarray(RNG.integers(0, 256, shape, dtype=np.uint8)) for _ in range(count)]


@pytest.mark.parametrize(("shape", "channels"), [((8, 6), 1), ((8, 6, 3), 3)])
def test_lists_of_pictures_and_of_their_paths_are_the_same_clients(
    shape: tuple[int, ...], channels: int, tmp_path: Path
) -> None:
    clients = [pictures(count, shape) for count in (4, 2)]
    paths = [[tmp_path / f"{at}-{number}.png" for number in range(len(own))] for at, own in enumerate(clients)]
    for own, of_client in zip(clients, paths, strict=True):
        for picture, path in zip(own, of_client, strict=True):
            picture.save(path)
    as_texts = [[str(path) for path in own] for own in paths]
    for given in (clients, paths, as_texts, {"a": as_texts[0], "b": as_texts[1]}):
        source = federation_input(given).source
        first, second = source.values() if isinstance(source, dict) else source
        assert as_tensor(first, "It").shape == (4, channels, 8, 6)
        assert as_tensor(second, "It").tolist() == as_tensor(client_input(clients[1], "It").x, "It").tolist()


def test_groups_of_a_table_in_a_list_are_clients_by_name() -> None:
    frame = pd.DataFrame({"a": RNG.normal(size=12), "b": RNG.normal(size=12), "site": list("nnnsss") * 2})
    found = federation_input(list(frame.groupby("site")))
    assert list(found.source) == ["n", "s"]


@pytest.mark.parametrize("names", [("x", "y"), ("x_train", "y_train"), ("train_images", "train_labels")])
def test_arrays_of_usual_names_are_samples_and_labels(names: tuple[str, str], tmp_path: Path) -> None:
    arrays = {names[0]: RNG.random((6, 4)), names[1]: np.arange(6) % 2, "x_test": RNG.random((2, 4))}
    np.savez(tmp_path / "t.npz", **arrays)
    found = load(str(tmp_path / "t.npz"))
    assert (tuple(found.x.shape), found.classes) == ((6, 4), ["0", "1"])
    assert load(str(tmp_path / "t.npz"), "none").y is None


@pytest.mark.parametrize("options", [{}, {"na_values": [-9]}, {"na_values": {"t": -9}}])
def test_cells_with_several_values_are_refused_whatever_the_options(options: dict[str, object]) -> None:
    with pytest.raises(FedkinError, match="Column 't' of It holds values of type list"):
        frame_to_table(pd.DataFrame({"a": range(9), "t": [["x"]] * 9}), "It", TableOptions(**options))  # type: ignore[arg-type]
