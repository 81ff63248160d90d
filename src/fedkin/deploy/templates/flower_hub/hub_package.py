"""The two apps that Flower runs; what they do is in fedkin."""
