"""Price points of gpt-13b on 64 A100 with llm-analysis and print the seconds; run by an interpreter that has it installed."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import time


def main(points: int) -> None:
    """Price ``points`` training steps over tensor and pipeline degrees and micro-batches; print points, refusals and seconds."""
    from llm_analysis.analysis import ActivationRecomputation, DSZeRO, LLMAnalysis
    from llm_analysis.config import ModelConfig, ParallelismConfig, get_dtype_config_by_name, get_gpu_config_by_name

    logging.disable(logging.CRITICAL)
    network = ModelConfig(
        name="gpt-13b", max_seq_len=2048, num_layers=40, n_head=40, hidden_dim=5120, vocab_size=50257, num_key_value_heads=40
    )
    gpu, dtype = get_gpu_config_by_name("a100-sxm-80gb"), get_dtype_config_by_name("w16a16e16")
    degrees = [(tp, pp, micro) for tp in (1, 2, 4, 8) for pp in (1, 2, 4, 8) for micro in (1, 2, 4, 8)]
    start, done, refused = time.perf_counter(), 0, 0
    while done < points:
        tp, pp, micro = degrees[done % len(degrees)]
        layout = ParallelismConfig(tp_size=tp, pp_size=pp, dp_size=64 // (tp * pp), sp_size=tp)
        analysis = LLMAnalysis(network, gpu, dtype, layout, flops_efficiency=0.5, hbm_memory_efficiency=0.9)
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                analysis.training(
                    batch_size_per_gpu=micro,
                    gradient_accumulation_steps=8,
                    seq_len=2048,
                    activation_recomputation=ActivationRecomputation.FULL,
                    ds_zero=DSZeRO.STAGE_1,
                )
            except AssertionError:  # its answer to a plan that does not fit
                refused += 1
        done += 1
    print(json.dumps({"points": done, "refused": refused, "seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
