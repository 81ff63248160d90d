"""Names that may be meant for others."""

import pytest

from fedkin.core.errors import nearest


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("n_cluster", ["n_clusters", "rounds"], "n_clusters"),
        ("purchase", ["Purchase", "WeekofPurchase"], "Purchase"),
        ("Purchase", ["WeekofPurchase", "StoreID"], None),
        ("cam9", [f"cam{at}" for at in range(1, 7)], None),
        ("rounds", ["method.rounds", "seed"], "method.rounds"),
        ("tyo", ["toy", "dec"], "toy"),
        ("cam", ["cam1", "roof"], "cam1"),
        ("x", [], None),
    ],
)
def test_a_name_is_proposed_only_if_it_alone_is_near(name: str, known: list[str], meant: str | None) -> None:
    assert nearest(name, known) == meant
