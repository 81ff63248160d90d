"""Made-up views of a run, and of results as large as a comparison of methods and a reproduction of tables are."""

import numpy as np

from fedkin.report.figures import (
    ClusterPictures,
    Curve,
    Mark,
    PagePart,
    PageView,
    ResultTable,
    SampleMap,
    TableCell,
    Text,
)

COLUMNS = ["clusters", "stability", "truth (ARI)", "sent and received, MB", "remark"]
METHODS = [
    ("kin-graph", 10, 0.981, 0.874, 0.4, "finds the number of clusters itself"),
    ("fedcref", 9, 0.803, 0.716, 26.1, "finds the number of clusters itself"),
    ("kfed", 10, 0.842, 0.602, 0.06, ""),
    ("sda-fc with synthetic data of generative networks", 10, 0.611, 0.498, 18.9, "1 of 3 seeds finished"),
    ("kmeans", 10, 0.899, 0.668, 0.9, "centralised baseline: moves the data"),
]


def comparison() -> PageView:
    """Methods by their scores, one of them recommended."""
    rows = []
    for at, (name, clusters, stability, truth, traffic, remark) in enumerate(METHODS):
        spread, best = f"± {0.004 + 0.011 * at:.3f}", "best" if at == 0 else ""
        tip = f"three pairs of seeds\nminimum {stability - 0.02:.3f}"
        scores = [TableCell(f"{stability:.3f}", spread, best, tip), TableCell(f"{truth:.3f}", spread, best)]
        rows.append((name, [TableCell(str(clusters)), *scores, TableCell(f"{traffic:.2f}"), TableCell(remark)]))
    seeds = Curve(
        "Clusters that agree, by seeds", "The band is the 95 % interval.", [2, 3, 4, 5],
        {"kin-graph": [0.97, 0.98, 0.98, 0.981], "kfed": [0.88, 0.85, 0.84, 0.842]}, "share", "seeds",
    )  # fmt: skip
    table = ResultTable("Ranked without truth", "Best at the top, by `stability`.", "method", COLUMNS, rows)
    return PageView(
        "Which method for digits?",
        "Ten clients hold 1,797 samples. Recommended: `fedkin run kin-graph`.",
        [("Recommended", "kin-graph", "most stable"), ("Least traffic", "hierarchical ward", "a long name")],
        [
            PagePart("ranking", "The ranking", figures=[table], commands=["fedkin run kin-graph"]),
            PagePart("figures", "How sure this is", figures=[seeds], notes=["One run did not finish."]),
        ],
        {"seeds": 3, "data": {"name": "digits"}},
    )


def reproduction() -> PageView:
    """Twelve rows by five columns, each beside the paper's number, and a curve beside the paper's."""
    columns = ["MNIST", "Fashion-MNIST", "CIFAR-10", "PACS", "mean"]
    scenarios = ["IID", "label skew, two classes a client", "rotation by 0°, 90°, 180° and 270°", "swapped labels"]
    rows = [
        (f"{method}, {scenario}", [_figure(at, column) for column in range(len(columns))])
        for at, (method, scenario) in enumerate((m, s) for m in ("FedAvg", "IFCA", "OCFL") for s in scenarios)
    ]
    caption = "Five seeds, mean ± the half of the 95 % interval; beneath, the paper's number."
    table = ResultTable("Table II: accuracy in percent", caption, "method and scenario", columns, rows)
    steps = [0.0, 0.25, 0.5, 0.75, 1.0]
    ours = {
        "IFCA": [0.91, 0.9, 0.88, 0.84, 0.72],
        "OCFL": [0.93, 0.93, 0.92, 0.92, 0.91],
        "FedAvg": [0.9, 0.8, 0.7, 0.55, 0.3],
    }
    curve = Curve(
        "Figure 3: accuracy by fraction of clients that differ", "Ours.", steps, ours, "share", "heterogeneity p",
    )  # fmt: skip
    commands = ["fedkin reproduce ocfl --table 2 --seeds 5", "fedkin resume runs/ocfl"]
    return PageView(
        "Reproduction of OCFL",
        "Every number of the paper's second table, run again.",
        [("Within the interval", "41 of 60", "numbers of the paper"), ("Largest gap", "−3.1", "percentage points")],
        [
            PagePart("table-2", "Table II", figures=[table], notes=["`CIFAR-10` is not augmented."]),
            PagePart("figure-3", "Figure 3", figures=[curve]),
            PagePart("again", "Run it again", commands=commands),
        ],
        {"rounds": 100},
    )


def _figure(at: int, column: int) -> TableCell:
    if (at, column) == (7, 3):
        return TableCell("–", "84.20", tip="not run: the data were not there")
    ours = 96.4 - 3.7 * column - 1.9 * (at % 4) + 1.3 * (at // 4)
    gap = [0.3, -0.2, 1.8, -3.1, 0.4][(at + column) % 5]
    verdict = "higher" if gap > 1 else "lower" if gap < -1 else "within"
    return TableCell(
        f"{ours:.2f} ± {0.41 + 0.1 * column:.2f}", f"paper {ours - gap:.2f}", verdict, f"five seeds\n{gap:+.2f}"
    )


def full_view(clusters: int = 3) -> PageView:
    """A run of which every part of the page is shown."""
    rng = np.random.default_rng(0)
    marks = [Mark(2, "1 client moved")]
    rows = [(cluster, [TableCell("3"), TableCell("2 A, 1 B"), TableCell("1–3")]) for cluster in (*range(clusters), -1)]
    members = ResultTable("", "Together.", "cluster", ["clients", "true clusters", "which"], rows)
    curves = [
        Curve("Accuracy", "Higher is better.", [0, 1, 2, 3], {"ACC": [0.5, 0.7, 0.8, 0.9]}, "share", marks=marks),
        Curve("Splits", "Clusters that were divided.", [2, 3], {"Splits": [1, 0]}, "count"),
        Curve("Traffic", "Sent.", [0, 1, 2, 3], {"sent": [5, 5, 5, 5]}, "bytes"),
    ]
    counts = [(f"client {at}", [TableCell("5", shade=-0.5)] * clusters + [TableCell("9")]) for at in range(2)]
    means = [(name, [TableCell("0.50", shade=0.5)] * clusters) for name in ("age", "weight")]
    heights = Curve("Heights", "Falling.", [1, 2], {"height": [2.0, 1.0]}, x_label="merge")
    pictures = [ClusterPictures(g, 5, 1, rng.random((4, 4)), rng.random((2, 4, 4))) for g in range(clusters)]
    places = SampleMap(
        "", "Nine samples.", rng.random((9, 2)), np.array([[0] * 9, np.arange(9) % 2, np.arange(9) % 3]), chosen=1,
        scales=["1 cluster", "2 clusters (found)", "3 clusters"],
        sentences=[{}, {0: "Cluster 0: old.", 1: "Cluster 1: young."}, {}],
        clients=np.array([0] * 6 + [1] * 3), client_names=["north", "south"], confidence=np.linspace(0, 1, 9),
        ids=[f"p{at}" for at in range(9)], id_name="patient",
    )  # fmt: skip
    return PageView(
        "A run",
        "What it found.",
        [("Clusters found", str(clusters), "across 3 clients")],
        [
            PagePart("words", "In words", of_clusters=[f"Cluster {at}: old." for at in range(clusters)]),
            PagePart("clients", "Clients", figures=[members]),
            PagePart("clustering", "How", figures=[Text(["Four bits each.", "No guarantee."]), heights]),
            PagePart("pictures", "Pictures", figures=pictures),
            PagePart("map", "Map", figures=[places]),
            PagePart("profiles", "Means", figures=[ResultTable("", "Means.", "feature", range(clusters), means)]),
            PagePart("curves", "Curves", paragraphs=["Two events."], figures=curves),
            PagePart("table", "Counts", figures=[ResultTable("", "Who.", "client", [*range(clusters), "all"], counts)]),
            PagePart("notes", "Notes", notes=["Client 2 was missing once."]),
        ],
        {"method": {"epochs": 3}, "seed": 0},
    )
