"""One run, from its configuration to a folder of results; many runs are in `fedkin.studies`."""
