"""Files of clusters, one per client."""

from pathlib import Path

import pytest
import torch

from fedkin.core.table import Column, Table
from fedkin.experiment.outputs import as_csv, cluster_columns, label_file, row_names

NAN = float("nan")


@pytest.mark.parametrize(
    ("names", "files"),
    [
        ([], ["client-0", "client-1"]),
        (["north.csv", "south.parquet"], ["north", "south"]),
        (["a.csv", "a.parquet"], ["a.csv", "a.parquet"]),
        (["ward/1", "ward_1"], ["client-0", "client-1"]),
        (["../x", "St. Gallen"], ["_x", "St. Gallen"]),
        (["Ulm", "ulm"], ["client-0", "client-1"]),
        (["", "b"], ["client-0", "b"]),
        (["..", "client-0"], ["_client-0", "client-0"]),
        (["client-1.csv", "client-0.csv"], ["client-1", "client-0"]),
        (["CON", "nul.tar"], ["client-0", "client-1"]),
        (["a" * 300, "é" * 130], ["client-0", "client-1"]),
        (["\u00e9", "e\u0301"], ["client-0", "client-1"]),
    ],
)
def test_files_are_called_after_what_the_data_came_from(names, files):
    assert [label_file(Path("run"), i, names) for i in range(2)] == [Path(f"run/labels/{name}.csv") for name in files]


def written(clusters, confidence, table, id_column):
    columns = row_names(len(clusters), table, id_column) + cluster_columns(clusters, confidence)
    return as_csv(zip(*columns, strict=True))


def test_ids_and_confidence_stand_beside_the_clusters():
    table = Table(
        (Column("patient", "category", ("P,1", "P2")), Column("nr")), torch.tensor([[0, 7], [1, NAN]]).double()
    )
    clusters, confidence = torch.tensor([1, 0]), torch.tensor([0.25, 1.0])
    named = written(clusters, confidence, table, "patient")
    assert named == 'row,patient,cluster,confidence\n0,"P,1",1,0.2500\n1,P2,0,1.0000\n'
    assert written(clusters, None, table, "nr") == "row,nr,cluster\n0,7,1\n1,,0\n"
    assert written(clusters, None, table, "absent") == "row,cluster\n0,1\n1,0\n"


def test_no_text_is_a_formula_to_a_spreadsheet():
    rows = [["=1+1", "@SUM(A1)", "-2+3", "-1.5", "+3", -2, "a=b"]]
    assert as_csv(rows) == "'=1+1,'@SUM(A1),'-2+3,-1.5,+3,-2,a=b\n"
