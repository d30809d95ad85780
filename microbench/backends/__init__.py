"""One file a backend: the framework a kernel is measured through. Each binds BACKEND (see ``microbench.plugin``)."""
