"""Measurements of Paddock next to its peers and floors: `python -m benchmarks`, or `make bench`."""
