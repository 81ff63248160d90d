"""Names of the embedded data sets, one line each; this module imports nothing, so that listing them costs nothing."""

HUB = "hf:"
"""Before a name on the hub, which nothing else asks for."""

EMBEDDED = {
    "digits": "handwritten digits, 1,797 grey images of 8 x 8, 10 classes",
    "wine": "chemistry of 178 wines, 13 columns, 3 classes",
    "iris": "measures of 150 flowers, 4 columns, 3 classes",
    "breast-cancer": "cell nuclei of 569 biopsies, 30 columns, 2 classes",
    "blobs": "2,000 points in 20 columns around 5 centres, always the same",
}
"""Data sets that need no network and no file, by the name `fedkin.data.reading.sources.load` knows them by."""
