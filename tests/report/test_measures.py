from fedkin.report.measures import MEASURES


def test_what_measures_refer_to_exists() -> None:
    for measure in MEASURES.values():
        assert measure.beside in {"", *MEASURES}
