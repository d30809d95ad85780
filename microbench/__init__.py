"""Microbenchmarks that stand alone: GEMM, attention, bandwidth and whole networks through each framework.

Imports nothing of ``advisor``, so that it runs on a bare node, in a container or in another environment.
Requests and measurements are JSON lines (see ``microbench.protocol``).
"""
