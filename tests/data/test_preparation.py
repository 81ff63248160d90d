"""How new samples become the tensors that models take, in whatever form a user has them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import fedkin
from fedkin.core import FedkinError
from fedkin.data.preparation import Preparation

GENERATOR = np.random.default_rng(0)
IMAGES = [GENERATOR.integers(0, 17, (20, 4, 4)).astype(float) for _ in range(2)]


def frame(rows: int = 30) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": GENERATOR.integers(20, 90, rows),
            "dose": GENERATOR.normal(500, 90, rows).round(1),
            "ward": GENERATOR.choice(["east", "west"], rows),
            "label": GENERATOR.choice(["sick", "well"], rows),
        }
    )


FRAMES = [frame(), frame()]


@pytest.fixture(scope="module")
def tables() -> fedkin.FedAvg:
    return fedkin.FedAvg(rounds=1, module="perceptron", random_state=0).fit(FRAMES)


@pytest.fixture(scope="module")
def numbers() -> fedkin.KMeans:
    return fedkin.KMeans(n_clusters=2, random_state=0).fit([own[["age", "dose"]] for own in FRAMES])


@pytest.fixture(scope="module")
def images() -> fedkin.FedAvg:
    return fedkin.FedAvg(rounds=1, module="perceptron", random_state=0).fit([(x, np.arange(20) % 2) for x in IMAGES])


def test_a_cluster_s_model_takes_what_a_data_frame_is_prepared_to(tables: fedkin.FedAvg) -> None:
    own = FRAMES[0]
    samples = tables.preparation_.apply(own)
    assert samples.shape == (30, 4)  # one of each ward
    assert samples.dtype == torch.float32
    with torch.no_grad():
        probabilities = tables.models_[0](samples).softmax(1).numpy()
    np.testing.assert_allclose(probabilities, tables.predict_proba(own, cluster=0), atol=1e-6)
    assert torch.equal(tables.preparation_.apply(own.drop(columns="label")), samples)
    assert torch.equal(tables.preparation_.apply(own[["label", "ward", "dose", "age"]].assign(more="x")), samples)


def test_a_file_is_prepared_as_its_data_frame(tables: fedkin.FedAvg, tmp_path: Path) -> None:
    FRAMES[0].to_csv(tmp_path / "own.csv", index=False)
    expected = tables.preparation_.apply(FRAMES[0])
    assert torch.equal(tables.preparation_.apply(tmp_path / "own.csv"), expected)
    assert torch.equal(tables.preparation_.read(str(tmp_path / "own.csv")), expected)


FORMS: list[Callable[[Any], Any]] = [
    pd.DataFrame.to_numpy, lambda own: torch.from_numpy(own.to_numpy()), lambda own: own.to_numpy().tolist(),
    lambda own: own[["dose", "age"]],
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_columns_of_numbers_may_be_without_names(form: Callable[[Any], Any], numbers: fedkin.KMeans) -> None:
    own = FRAMES[0][["age", "dose"]]
    expected = numbers.preparation_.apply(own)  # of float64, where arrays are of float32
    np.testing.assert_allclose(numbers.preparation_.apply(form(own)), expected, atol=1e-5)


def test_samples_are_prepared_as_for_predict(numbers: fedkin.KMeans) -> None:
    own = FRAMES[1][["age", "dose"]]
    nearest = torch.cdist(numbers.preparation_.apply(own), numbers.result_["centroids"].float()).argmin(1)
    assert nearest.tolist() == numbers.predict(own).tolist()


@pytest.mark.parametrize("form", [np.asarray, torch.from_numpy, lambda x: x[:, None], lambda x: (x, np.zeros(len(x)))])
def test_images_are_prepared_in_any_form(form: Callable[[Any], Any], images: fedkin.FedAvg) -> None:
    x = IMAGES[0]
    samples = images.preparation_.apply(form(x))
    assert samples.shape == (20, 1, 4, 4)
    with torch.no_grad():
        found = images.models_[0](samples).softmax(1).numpy()
    np.testing.assert_allclose(found, images.predict_proba(x, cluster=0), atol=1e-6)


def refusals() -> list[tuple[str, Any, str]]:
    own = FRAMES[0]
    return [
        ("tables", np.zeros((3, 3)), "no names of columns"),
        ("tables", torch.zeros(3, 3), "give a DataFrame"),
        ("tables", own.drop(columns="dose"), "dose"),
        ("tables", own["age"], "The data given is a Series"),
        ("tables", {"a": own}, "The data given is of type dict; a client's data are an array"),
        ("tables", None, "The data given is of type NoneType"),
        ("tables", "nowhere.csv", "nowhere.csv"),
        ("numbers", np.zeros((3, 4)), "shape (3, 4)"),
        ("numbers", np.zeros(2), "shape (2,)"),
        ("images", np.zeros((3, 5, 5)), "shape (1, 5, 5), but the model was made for (1, 4, 4)"),
        ("images", np.zeros((0, 4, 4)), "is empty"),
        ("images", own, "The data given"),
    ]


@pytest.mark.parametrize(("fitted", "given", "said"), refusals())
def test_what_does_not_fit_is_refused_in_a_sentence(
    fitted: str, given: Any, said: str, request: pytest.FixtureRequest
) -> None:
    preparation: Preparation = request.getfixturevalue(fitted).preparation_
    with pytest.raises(FedkinError) as caught:
        preparation.apply(given)
    assert said in str(caught.value)


def test_reading_by_name_sends_a_data_frame_to_apply(tables: fedkin.FedAvg) -> None:
    with pytest.raises(FedkinError, match=r"not a DataFrame; apply\(x\) takes"):
        tables.preparation_.read(FRAMES[0])  # type: ignore[arg-type]


def test_ends_of_the_clients_values_are_kept_in_files_and_sent_to_no_client(tables: fedkin.FedAvg) -> None:
    made = tables.preparation_
    again = Preparation.from_tree(made.tree())
    assert made.reach is not None
    assert again.reach is not None
    assert torch.equal(again.reach, made.reach)
    sent = made.for_clients()
    assert (sent.reach, sent.notes, sent.questions) == (None, [], ())
    assert Preparation.from_tree(sent.tree()).reach is None
    assert sent.encoding is not None
    assert "reach" not in sent.encoding.tree()
