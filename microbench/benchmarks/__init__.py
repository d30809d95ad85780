"""One file a benchmark. Each binds BENCHMARK (see ``microbench.plugin``)."""
