"""Rows that are called totals or means, and are such, or samples."""

import numpy as np
import pandas as pd
import pytest

from fedkin.core import FedkinError
from fedkin.data.reading.tables import frame_to_dataset, frame_to_table, read_table

VACATION = ["generous", "Average", "below", "generous", "below"]
FRAME = pd.DataFrame({"wage": [2.5, 4.0, 5.5, 3.0, 3.0], "hours": [40, 38, 35, 40, 37], "vacation": VACATION})


def with_row(frame=FRAME, **row):
    return pd.concat([frame, pd.DataFrame([row])], ignore_index=True)


@pytest.mark.parametrize("word", ["average", "Average:"])
def test_a_word_that_other_rows_have_is_a_category(word):
    means = with_row(wage=3.6, hours=38, vacation=word)
    assert len(frame_to_dataset(means, "f", "It")) == 6
    others = means.assign(vacation=[*VACATION[:1], "below", *VACATION[2:], word])
    with pytest.raises(FedkinError, match="is one of means"):
        frame_to_dataset(others, "f", "It")


def test_a_whole_number_near_the_mean_of_few_whole_numbers_is_no_evidence():
    years = pd.DataFrame({"duration": [1, 2, 3, 2, 3], "vacation": ["generous", "below", *["generous"] * 3]})
    assert len(frame_to_dataset(with_row(years, duration=2, vacation="average"), "f", "It")) == 6
    with_wage = years.assign(wage=FRAME.wage)
    assert len(frame_to_dataset(with_row(with_wage, duration=2, wage=5.7, vacation="average"), "f", "It")) == 6
    with pytest.raises(FedkinError, match="is one of means"):
        frame_to_dataset(with_row(with_wage, duration=2, wage=3.6, vacation="average"), "f", "It")


def machines(parts=4, rows=9):
    rng = np.random.default_rng(0)
    numbers = {"temp": rng.normal(70, 5, parts * rows).round(3), "made": rng.integers(1, 90, parts * rows)}
    return pd.DataFrame({"machine": np.repeat([f"M{part}" for part in range(parts)], rows), **numbers})


@pytest.mark.parametrize("called", ["Subtotal {}", "{} Total", "Zwischensumme", "Average", "Mean of {}"])
def test_rows_of_parts_are_refused(called):
    parts = []
    for name, part in machines().groupby("machine"):
        of = part.drop(columns="machine").agg("mean" if called[0] in "AM" else "sum")
        parts += [part, pd.DataFrame([{"machine": called.format(name), **of}])]
    what = "means" if called[0] in "AM" else "totals"
    said = f"Row 10 of It is one of {what} ('{called.format('M0')}'), and there are 4 such rows; delete them."
    with pytest.raises(FedkinError) as error:
        frame_to_dataset(pd.concat(parts, ignore_index=True), "f", "It")
    assert str(error.value) == said


@pytest.mark.parametrize("first", [True, False])
def test_means_beside_minima_and_maxima_are_refused(first):
    frame = machines()
    block = frame.drop(columns="machine").agg(["min", "max", "mean", "std"])
    block.insert(0, "machine", ["Min", "Max", "Mean", "Std"])
    both = pd.concat([block, frame] if first else [frame, block], ignore_index=True)
    said = f"is one of means ('Mean'); delete rows {'1 to 4' if first else '37 to 40'}."
    with pytest.raises(FedkinError) as error:
        frame_to_dataset(both, "f", "It")
    assert str(error.value).endswith(said)


def test_samples_that_are_called_like_totals_of_parts_stay():
    films = machines().replace({"machine": {"M0": "Total recall", "M1": "Sum of us", "M2": "average", "M3": "Total"}})
    assert len(frame_to_dataset(films, "f", "It")) == 36
    once = machines()
    once.loc[7, "machine"], once.loc[20, "machine"] = "average", "Total loss"
    assert len(frame_to_dataset(once, "f", "It")) == 36


@pytest.mark.parametrize("word", ["Total", "SUM", "Summe:", "Grand Total"])
def test_a_row_of_totals_is_one_sentence(tmp_path, word):
    frame = pd.DataFrame({"ward": list("abcde"), "id": range(5), "age": [3.5] * 5, "sex": list("mfmfm"), "n": range(5)})
    total = {"ward": word, "age": 17.5, "n": 10}
    with_total = pd.concat([frame, pd.DataFrame([total])])
    with_total.to_csv(tmp_path / "t.csv", index=False)
    said = f"'{tmp_path / 't.csv'}' is one of totals ('{word}'); delete it."
    with pytest.raises(FedkinError) as error:
        read_table(tmp_path / "t.csv")
    assert str(error.value) == f"The last row of {said}"
    beyond = with_total.assign(age=[1e308] * 5 + [2.0], n=[np.inf, -np.inf, 1, 2, 3, 9])
    with pytest.raises(FedkinError, match="has 2 infinite values"):
        frame_to_table(beyond, "It")
    pd.concat([frame, pd.DataFrame([{**total, "age": 3.5, "n": 2}])]).to_csv(tmp_path / "t.csv", index=False)
    assert len(read_table(tmp_path / "t.csv")) == 6
    pd.concat([frame, pd.DataFrame([{**total, "ward": "f"}])]).to_csv(tmp_path / "t.csv", index=False)
    assert len(read_table(tmp_path / "t.csv")) == 6


@pytest.mark.parametrize("word", ["Mean", "average:", "Mittelwert", "Durchschnitt", "Ø"])
def test_a_row_of_means_is_one_sentence(word):
    frame = pd.DataFrame({"ward": list("abcde"), "age": [30, 41, 52, 60, 70], "crp": [0.001, 0.002, 0.0, 0.004, 0.1]})
    means = pd.DataFrame([{"ward": word, "age": 50.6, "crp": 0.021}])
    rows = pd.concat([frame, means])
    with pytest.raises(FedkinError) as error:
        frame_to_dataset(rows, "f", "It")
    assert str(error.value) == f"The last row of It is one of means ('{word}'); delete it."
    deviations = pd.DataFrame([{"ward": "SD", "age": 15.6, "crp": 0.044}])
    with pytest.raises(FedkinError, match=r"^Row 6 of It is one of means \('.*'\); delete it and the rows below\.$"):
        frame_to_dataset(pd.concat([rows, deviations]), "f", "It")
    assert len(frame_to_dataset(pd.concat([frame, means.assign(age=51.6, crp=0.5)]), "f", "It")) == 6
    assert len(frame_to_dataset(pd.concat([frame, means.assign(ward="f")]), "f", "It")) == 6


@pytest.mark.parametrize(
    ("first", "line"),
    [
        (["p1", "p2", "p3", "p4"], "Exported by LIMS on 2024-05-01"),
        (["Anna Bell", "Max Frey", "Ada Lund", "Jo Ott"], "(4 rows)"),
        (["1", "2", "3", "4"], "EOF"),
    ],
)
def test_a_line_of_text_below_a_table_is_one_sentence(tmp_path, first, line):
    rows = "".join(f"{name},{at},\n" if at else f"{name},,x\n" for at, name in enumerate(first))
    path = tmp_path / "t.csv"
    path.write_text(f"id,age,sex\n{rows}\n{line}\n")
    with pytest.raises(FedkinError) as error:
        read_table(path)
    assert str(error.value) == (
        f"The last row of '{path}' holds '{line}' alone, as a line below a table does; delete it."
    )
    path.write_text(f"id,age,sex\n{rows}\n{line}\n,,\nPage 1 of 3\n")
    with pytest.raises(FedkinError, match=r"^Row 5 of .* alone, as .*; delete it and the rows below\.$"):
        read_table(path)
    for text in (f"{rows}{first[0]}9,,\n", f"{rows}{first[1]},,\n", f"{rows}x,,\n{line},3,\n", f"x,,\n{rows}{line}\n"):
        path.write_text(f"id,age,sex\n{text}")
        read_table(path)
