"""Kernel time formulas: one file a kind of kernel, each with its few parameters, their priors and where they come from."""
