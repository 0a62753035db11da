"""Searches: points of a parameter space, compared on held-out training samples."""
