"""Quantities that are no timings (bytes, errors, counts), each determined in a process of its own that prints one JSON object."""
