"""Numbers such as 120.000 are refused where other clients have 250000, and only there."""

import numpy as np
import pandas as pd
import pytest

from fedkin.core import FedkinError
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.scenarios.already_split import ClientFiles


def build(folder, decimal=".", separator=",", **prices):
    rng = np.random.default_rng(0)
    for name, own in prices.items():
        table = pd.DataFrame({"price": own, "area": rng.normal(80, 9, len(own)).round(1)})
        table.to_csv(folder / f"{name}.csv", index=False, sep=separator, decimal=decimal)
    return ClientFiles(str(folder), table=TableOptions(decimal=decimal)).build()


WHOLE = np.random.default_rng(1).integers(90, 900, 40) * 1_000


@pytest.mark.parametrize("decimal", [".", ","])
def test_thousands_at_one_client_are_refused(tmp_path, decimal):
    other = "," if decimal == "." else "."
    apart = [f"{price // 1000}{decimal}{price % 1000:03d}" for price in WHOLE]
    sign = "point" if decimal == "." else "comma"
    with pytest.raises(FedkinError) as error:
        build(tmp_path, decimal, ";", nice=WHOLE + 100, bonn=apart)
    assert str(error.value) == (
        f"Column 'price' holds '{apart[0]}' at client bonn.csv, where the {sign} seems to separate thousands, and "
        f"{np.median(WHOLE + 100):,.0f} in the median at client nice.csv; write the numbers without it, or in the same "
        "unit."
    )
    assert other not in apart[0]


@pytest.mark.parametrize(
    "own",
    [
        [f"{price / 1000:.2f}" for price in WHOLE],  # in another unit, which is noted
        [f"{price / 1e5:.3f}" for price in WHOLE],
        [f"{price / 1000:.3f}" if at else "95.5" for at, price in enumerate(WHOLE)],
    ],
)
def test_other_decimals_are_none(tmp_path, own):
    build(tmp_path, nice=WHOLE + 100, bonn=own)


def test_all_clients_may_have_three_decimals(tmp_path):
    build(tmp_path, nice=[f"{price / 1000:.3f}" for price in WHOLE], bonn=[f"{price / 900:.3f}" for price in WHOLE])
    build(tmp_path, nice=np.arange(40) % 9, bonn=[f"{price / 1e5:.3f}" for price in WHOLE])
