"""Twenty-four questions, from a laptop to 4,096 devices: models, hardware, tasks and objectives that differ."""

from __future__ import annotations

from advisor.usecases.question import Request

CASES: tuple[Request, ...] = (
    # A CPU, a gaming card, an old card.
    Request(model="bert-base", task="infer", hardware="1xxeon-platinum-8480plus", seq=128, objective="latency"),
    Request(model="resnet-50", task="infer", hardware="1xepyc-9654", global_batch=16),
    Request(model="gpt-125m", task="train", hardware="1xrtx-4090", seq=1024),
    Request(model="llama-2-7b", task="qlora", hardware="1xrtx-3090", seq=1024, global_batch=8),
    Request(model="llama-2-7b", task="infer", hardware="1xrtx-4090", input_len=256, output_len=128, global_batch=1, objective="latency"),
    Request(model="bert-base", task="infer", hardware="1xt4", seq=128),
    # One node.
    Request(model="resnet-50", task="train", hardware="8xv100-sxm2-32gb", global_batch=2048),
    Request(model="gpt-1.3b", task="train", hardware="8xv100-sxm2-32gb", seq=1024, global_batch=64),
    Request(model="bert-large", task="train", hardware="8xa100-sxm4-40gb", seq=128),
    Request(model="llama-2-7b", task="full-finetune", hardware="8xa100-sxm4-80gb", seq=4096, global_batch=64, objective="energy"),
    Request(model="llama-2-70b", task="lora", hardware="8xh100-sxm5-80gb", seq=4096, global_batch=32),
    Request(model="llama-2-13b", task="infer", hardware="3xrtx-3090", input_len=256, output_len=64),
    Request(model="llama-2-70b", task="infer", hardware="8xh100-sxm5-80gb", input_len=512, output_len=128, global_batch=64),
    Request(model="llama-2-70b", task="serve", hardware="4xa100-sxm4-80gb", input_len=512, output_len=128, limits={"ttft_s": 1.0}),
    Request(model="mixtral-8x7b", task="infer", hardware="4xh100-sxm5-80gb", input_len=512, output_len=128, global_batch=32),
    Request(model="gpt-13b", task="train", hardware="8xmi300x", seq=2048, global_batch=64, objective="memory"),
    # Several nodes and slices.
    Request(model="gpt-13b", task="train", hardware="64xa100-sxm4-80gb", seq=2048, global_batch=512),
    Request(
        model="gpt-13b", task="train", hardware="64xa100-sxm4-80gb", seq=2048, global_batch=512, objective="cost",
        prices={"a100-sxm4-80gb": 2.0},
    ),
    Request(model="llama-7b", task="train", hardware="tpu-v5p-128", seq=2048, global_batch=256),
    Request(model="mixtral-8x7b", task="train", hardware="64xh100-sxm5-80gb", seq=4096, global_batch=256),
    Request(model="llama-2-70b", task="train", hardware="256xh100-sxm5-80gb", seq=4096, global_batch=512),
    Request(model="gpt-175b", task="train", hardware="1024xa100-sxm4-80gb", seq=2048, global_batch=1536),
    Request(model="gpt-175b", task="train", hardware="1024xa100-sxm4-80gb", seq=2048),
    Request(model="llama-3.1-405b", task="train", hardware="4096xh100-sxm5-80gb", seq=8192, global_batch=2048),
)  # fmt: skip
#: Those that take a moment: what the default tests run.
QUICK = (0, 3, 5, 7, 12)


def name(request: Request) -> str:
    """Return the question in a few words."""
    batch = f", batch {request.global_batch}" if request.global_batch else ""
    return f"{request.task} {request.model} on {request.hardware}{batch}, {request.objective}"
