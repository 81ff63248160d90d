"""Features that samples are compared by."""
