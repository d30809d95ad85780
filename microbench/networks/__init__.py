"""Whole networks for the ``model`` benchmark: one description, the same random weights in every framework, one reference."""
