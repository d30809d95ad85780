"""Kinds of experiments, one file each; a file that binds EXPERIMENT is found by itself."""
