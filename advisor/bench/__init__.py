"""Run microbenchmarks in children, in interleaved rounds, and combine the rounds into Measurements."""
