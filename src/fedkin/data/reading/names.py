"""What fedkin offers as data, one line each; imports nothing, so that listing it costs nothing."""

EMBEDDED = {
    "digits": "handwritten digits, 1,797 grey images of 8 x 8, 10 classes",
    "wine": "chemistry of 178 wines, 13 columns, 3 classes",
    "iris": "measures of 150 flowers, 4 columns, 3 classes",
    "breast-cancer": "cell nuclei of 569 biopsies, 30 columns, 2 classes",
    "blobs": "2,000 points in 20 columns around 5 centres, always the same",
}
"""Data sets that need no network and no file, by the name `fedkin.data.reading.sources.load` knows them by."""

SCENARIOS = {
    "label-skew": "one labelled data set dealt out so that each client sees only a few of its classes",
    "own-class": "one client per class, which holds more or less of that class alone (CCFC, SDA-FC)",
    "files": "data that are split already: a folder with one file per client, taken as they are",
    "label-clusters": "three clusters of clients with classes of their own, apart or overlapping (OCFL)",
    "missing-classes": "clusters of clients that each lack a few of the classes (gradient-loss clustering)",
    "rotation": "clusters of clients whose images are turned by 0, 90, 180 or 270 degrees",
    "label-flip": "clusters of clients that call the same classes by different labels",
    "domain": "clusters of clients from different domains, such as the photos and sketches of PACS",
    "drift-swap": "rotation or label-flip, and in the middle of a run some clients change their cluster",
    "arrivals": "rotation or label-flip, and some clients join in the middle of a run",
    "dirichlet": "every class dealt out in random proportions; no hidden clusters",
    "shards": "every client gets a few blocks of the samples sorted by class; no hidden clusters",
    "iid": "samples dealt out at random; no hidden clusters",
}
"""Ways to make the clients of a federation; `fedkin.experiment.registry` knows their classes."""
