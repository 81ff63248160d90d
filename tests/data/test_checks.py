"""What checks find of clients' data against each other and in new rows, and that parts of one table are found alike."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

import fedkin
from fedkin.core import FedkinError
from fedkin.core.client import Column
from fedkin.data.checks import check_arrays, check_cells, check_columns
from fedkin.data.columns import moments_of
from fedkin.data.options import TableOptions
from fedkin.data.preparation import prepare
from fedkin.data.tables import frame_to_table
from prepared_tables import category, federation, number, table

ROWS = 40


def draw(seed, mean=50.0, deviation=9.0, rows=ROWS):
    return np.random.default_rng(seed).normal(mean, deviation, rows)


def questions(*frames, **options):
    """What is found of clients with these frames, called a, b, c and so on."""
    fed = federation(*(frame_to_table(pd.DataFrame(frame), f"Client {i}") for i, frame in enumerate(frames)))
    fed.secure_sums = options.pop("secure", False)
    return prepare(fed, TableOptions(**options), list("abcdefgh")).questions


def cells(*frames):
    return check_cells(
        {at: frame_to_table(pd.DataFrame(frame), at) for at, frame in zip("abcdefgh", frames, strict=False)}
    )


@pytest.mark.parametrize(
    ("values", "how"),
    [
        (draw(2) / 57, "about 57 times smaller"),
        (draw(2) * 2.2046, "about 2.2 times larger"),
        (draw(2) * 1.8 + 32, "about 2.5 times larger"),
        (draw(2) - 100, "far below the others"),
    ],
)
def test_another_unit_at_one_client_is_found_with_what_helps(values, how):
    [sentence] = questions({"x": draw(0)}, {"x": draw(1)}, {"x": values})
    assert sentence == (
        f"Values are in another unit or scale at client c: 'x' ({how}); give all clients one unit, or set drop = "
        '["x"] if that is no feature of samples.'
    )


def test_another_unit_is_found_where_ranges_overlap_at_half_of_the_clients_and_of_many_columns_at_once():
    amounts = [np.exp(np.random.default_rng(seed).normal(3, 1, 90)) for seed in range(4)]
    [sentence] = questions(*({"x": amount * times} for amount, times in zip(amounts, (1, 1, 80, 80), strict=True)))
    assert "at clients c, d: 'x' (about " in sentence
    many = [{f"x{i}": draw(10 * seed + i) * times for i in range(4)} for seed, times in enumerate((1, 1, 1000))]
    [sentence] = questions(*many)
    assert all(f"'x{i}' (about " in sentence for i in range(4))
    assert not questions({"x": draw(0)}, {"x": draw(1, mean=60)}, {"x": draw(2, mean=70)})
    assert not questions({"x": amounts[0]}, {"x": np.append(amounts[1], 1e6)})  # a slip is an outlier
    differences = [draw(seed, mean=0.0) for seed in range(3)]
    [sentence] = questions({"x": differences[0]}, {"x": differences[1]}, {"x": differences[2] * 1000})
    assert "at client c: 'x' (about 1,0" in sentence
    slips = np.append(differences[2], [1e6, -1e6])
    assert not questions({"x": differences[0]}, {"x": differences[1] * 9}, {"x": slips})


@pytest.mark.parametrize("low", [-1e300, 0.0, 5e-324])
@pytest.mark.parametrize("high", [1e-300, 1.0, 1.7e308])
def test_no_number_that_a_client_sends_stops_the_checks(low, high):
    sent = torch.tensor([[9.0], [9.0], [low], [high]], dtype=torch.float64)
    moments = moments_of(sent, sent[3], torch.tensor([1.7e308], dtype=torch.float64))
    check_columns([Column("x")], {}, moments={"a": moments, "b": moments})


def test_categories_that_differ_in_spelling_and_those_of_no_other_client_are_found():
    sexes = [["female", "male"] * 20, ["Female", "male"] * 20]
    [sentence] = questions({"s": sexes[0], "x": draw(0)}, {"s": sexes[1], "x": draw(1)})
    assert "count as different: 'female' (client a), 'Female' (client b); write values alike" in sentence
    assert not questions(*[{"s": [*"aAb"] * 10, "x": draw(seed, rows=30)} for seed in (0, 1)])  # one client has both
    letters = {"s": ["w", "m"] * 20, "x": draw(2)}
    for secure in (False, True):
        [sentence] = questions(
            *({"s": sexes[0], "x": draw(seed)} for seed in (0, 1)), letters, secure=secure, scaling="standard"
        )
        assert sentence.startswith("Column 's' has no frequent value at client c that others have; write")


@settings(max_examples=15, deadline=None)
@given(clients=st.integers(2, 6), levels=st.integers(2, 60), seed=st.integers(0, 99))
def test_parts_of_one_table_do_not_differ(clients, levels, seed):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"s": rng.zipf(1.5, 300).clip(0, levels).astype(str), "x": rng.lognormal(size=300)})
    rows = rows.assign(rare=rng.random(300) < 0.03, zero=np.where(rng.random(300) < 0.9, 0, rng.lognormal(0, 2, 300)))
    parts = [rows[i::clients].reset_index(drop=True) for i in range(clients)]
    assert not questions(*parts)
    assert not cells(*parts)


@pytest.mark.parametrize("data", [load_wine, load_iris, load_breast_cancer, load_diabetes])
def test_clean_tables_have_no_finding(data):
    frame = data(as_frame=True).frame.drop(columns="target").sample(frac=1, random_state=0).reset_index(drop=True)
    parts = [frame[i::3].reset_index(drop=True) for i in range(3)]
    assert not questions(*parts)
    assert not cells(*parts)


@pytest.mark.parametrize(("code", "place"), [(9999, "above"), (-99, "below"), (0, "below")])
def test_a_repeated_value_far_from_all_others_is_a_code_for_a_missing_one(code, place):
    coded = np.where(np.arange(ROWS) < 5, code, draw(0, mean=130, deviation=12).round(1))
    [sentence] = cells({"x": coded}, {"x": draw(1, mean=130, deviation=12).round(1)})
    assert sentence == (
        f"Column 'x' holds {code}, far {place} all other values, in 5 rows of client a; if it is no true value but "
        f"stands for a missing one, set na_values = {{x = [{code}]}}."
    )


def test_the_same_rows_at_two_clients_are_found_in_any_order_of_rows_and_columns():
    rows = pd.DataFrame({"x": draw(0), "y": draw(1), "s": ["u", "v"] * 20})
    copy = pd.concat([rows.sample(frac=0.6, random_state=0), pd.DataFrame({"x": draw(2), "y": draw(3), "s": "w"})[:9]])
    [sentence] = cells(rows, copy[["s", "y", "x"]])
    assert sentence.startswith("b holds 24 of its 33 different rows at a, too; leave it out")
    coarse = pd.DataFrame(np.random.default_rng(0).integers(0, 3, (90, 3)), columns=list("xyz"))
    assert not cells(coarse[:45].reset_index(drop=True), coarse[45:].reset_index(drop=True))


def test_no_finding_shows_a_value_that_few_rows_share():
    secret = 31_337.25
    rows = {"x": [secret, *draw(0, rows=39)], "s": ["Xylander", *["u", "v"] * 19, "u"], "y": draw(1)}
    said = [*questions(rows, {"x": draw(2) * 1000, "s": ["a"] * ROWS, "y": draw(3)}), *cells(rows, rows)]
    assert said
    assert not any(("31" in sentence and "337" in sentence) or "Xylander" in sentence for sentence in said)


def test_arrays_many_times_as_large_as_those_of_other_clients_are_found():
    def ends(low: float, high: float, outlier: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor([0.0, low, low]).double(), torch.tensor([outlier, high, high]).double()

    [finding] = check_arrays({"a": ends(0, 1), "b": ends(-255, 2), "c": ends(0, 0.9)})
    assert finding.startswith("The largest values at client b are about 255, and those of all others about 1;")
    for fine in ({"a": ends(0, 25), "b": ends(0, 1)}, {"a": ends(0, 2, outlier=1e6), "b": ends(0, 1)}):
        assert not check_arrays(fine)
    pixels = np.random.default_rng(0).integers(0, 256, (80, 6)).astype(np.float32)
    with pytest.warns(fedkin.FedkinWarning, match="The largest values at client 1 are about .*, and"):
        fedkin.KMeans(n_clusters=2, random_state=0).fit([pixels[::3], pixels[1::3] / 255, pixels[2::3]])


SMOKER = Column("smoker", "boolean", ("no", "yes"))
WARDS = category("ward", *["heart"] * 15, *["lung"] * 15)
ENCODING = prepare(
    federation(*[table(number("weight", *range(60, 90)), WARDS, (SMOKER, [0.0, 1.0] * 15)) for _ in range(2)])
).encoding


def test_numbers_for_truth_values_other_texts_and_other_spellings_of_names_are_refused():
    codes = table(category("Weight", "60", "heavy"), category("ward", "lung", "lung"), number("smoker", 1, 2))
    words = table(number("weight", 60, 70), category("ward", "lung", "lung"), category("smoker", "Yes", "unknown"))
    with pytest.raises(FedkinError) as error:
        ENCODING.apply(codes)
    assert str(error.value).splitlines() == [
        "The table has no column 'weight', which the clients' tables have.",
        "Column 'smoker' of the table holds numbers; in the clients' tables it holds truth values.",
    ]
    with pytest.raises(FedkinError, match="holds categories; in the clients' tables it"):
        ENCODING.apply(words)
