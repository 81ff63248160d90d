"""Numbers, dates, times and units as people write them in text."""
