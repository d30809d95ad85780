"""Every export of varied plans is accepted by its validator, and damaged ones are refused with a sentence that names the damage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from advisor.export import Answer, all_exporters, exporter
from advisor.model.registry import model
from advisor.plan.records import Plan


def make(
    name: str, target: str = "cuda", *, task: str = "train", nodes: int = 1, seq: int = 2048, output: int | None = None, **plan: Any
) -> Answer:
    m = model(name)
    p = Plan(**({"framework": "torch", "execution": "eager", "precision": "bf16"} | plan))
    return Answer(
        plan_id="0123456789ab",
        plan=p,
        task=task,
        model={"name": m.name, "family": m.family, "kind": m.kind, "parameters": m.parameters},
        hardware={"name": f"{p.devices}x device", "devices": p.devices, "nodes": nodes},
        workload={"seq_len": seq, "input_len": None, "output_len": output},
        estimate={"memory_parts_bytes": {"weights": 2.0 * m.parameters / (p.tp * p.pp)}},
        transformer=asdict(m.transformer) if m.transformer else {},
        versions={"torch": "2.13.0+cpu"},
        target=target,
    )


_SERVE: dict[str, Any] = {"task": "serve", "execution": "engine", "optimizer": "none", "attention": "paged", "output": 256}

#: Twenty plans over tasks, kinds of models, devices, and every kind of parallelism, sharding, precision and offload.
PLANS: dict[str, Answer] = {
    "laptop": make("gpt2", "cpu-x86", seq=1024, micro_batch=8, global_batch=8, threads=2),
    "bert fp16": make("bert-large", seq=512, precision="fp16", framework="deepspeed", dp=8, devices=8, sharding="zero2", shard_degree=8,
                      micro_batch=32, global_batch=256, offload="optimizer"),
    "fsdp": make("gpt-13b", nodes=8, framework="jax", dp=64, devices=64, sharding="fsdp", shard_degree=64, micro_batch=8,
                 global_batch=512, recompute="selective"),
    "3d": make("gpt-13b", nodes=8, framework="megatron", dp=8, tp=4, pp=2, vpp=5, devices=64, sequence_parallel=True, sharding="zero1",
               shard_degree=8, micro_batch=2, grad_accumulation=32, global_batch=512, recompute="full"),
    "hsdp": make("llama-3-8b", nodes=2, seq=8192, execution="compile", dp=16, devices=16, sharding="hsdp", shard_degree=8,
                 grad_accumulation=4, global_batch=64),
    "context": make("llama-3-70b", nodes=16, seq=8192, dp=4, tp=8, pp=2, cp=2, devices=128, sequence_parallel=True, sharding="fsdp",
                    shard_degree=8, grad_accumulation=8, global_batch=32),
    "experts fp8": make("mixtral-8x7b", nodes=8, seq=4096, framework="megatron", precision="fp8", dp=8, tp=2, pp=4, vpp=4, ep=8,
                        devices=64, sequence_parallel=True, sharding="zero1", shard_degree=8, grad_accumulation=16, global_batch=128),
    "latent": make("deepseek-v3", nodes=128, seq=4096, framework="megatron", dp=128, tp=8, ep=64, devices=1024, sequence_parallel=True,
                   sharding="zero1", shard_degree=128, grad_accumulation=4, global_batch=512),
    "offload": make("gpt-30b", nodes=2, framework="deepspeed", dp=16, devices=16, sharding="zero3", shard_degree=16, micro_batch=4,
                    global_batch=64, offload="params"),
    "lora": make("llama-3-8b", task="finetune", seq=4096, dp=2, devices=2, grad_accumulation=8, global_batch=16, adapter="lora",
                 adapter_rank=16, recompute="full"),
    "qlora": make("llama-3-8b", task="finetune", seq=4096, framework="deepspeed", dp=2, devices=2, sharding="zero2", shard_degree=2,
                  grad_accumulation=8, global_batch=16, adapter="qlora", adapter_rank=16),
    "images": make("resnet-50", precision="fp16", dp=8, devices=8, micro_batch=64, global_batch=512, optimizer="sgd"),
    "pod": make("llama-2-7b", "tpu", nodes=4, seq=4096, framework="jax", execution="jit", dp=8, tp=2, devices=16, sharding="fsdp",
                shard_degree=8, micro_batch=2, global_batch=16, recompute="full"),
    "serve": make("llama-3-8b", seq=1280, framework="vllm", tp=2, devices=2, micro_batch=32, global_batch=32, **_SERVE),
    "serve fp8": make("llama-3-70b", seq=1280, framework="tensorrt-llm", tp=4, dp=2, devices=8, quantization="fp8", micro_batch=64,
                      global_batch=128, **_SERVE),
    "serve nodes": make("llama-3.1-405b", nodes=2, seq=4096, framework="vllm", tp=8, pp=2, devices=16, quantization="fp8", micro_batch=64,
                        global_batch=64, **_SERVE),
    "serve experts": make("mixtral-8x7b", seq=4096, framework="vllm", tp=4, dp=2, ep=8, devices=8,
                          micro_batch=16, global_batch=32, **_SERVE),
    "encode": make("bert-base", "cpu-x86", task="infer", seq=128, framework="onnxruntime", execution="graph", precision="fp32",
                   quantization="int8-dynamic", micro_batch=8, global_batch=8, threads=2, optimizer="none"),
    "encode gpu": make("bert-base", task="serve", seq=128, framework="onnxruntime", execution="graph", precision="fp16", micro_batch=32,
                       global_batch=32, optimizer="none"),
    "classify": make("resnet-50", "cpu-x86", task="infer", framework="openvino", execution="compile", micro_batch=4, global_batch=4,
                     threads=2, optimizer="none"),
}  # fmt: skip

PAIRS = [(plan, e.name) for plan, answer in PLANS.items() for e in all_exporters() if e.obstacle(answer) is None]


def test_the_plans_cover_every_format_and_none_is_left_without() -> None:
    assert len(PLANS) == 20
    assert {format_ for _, format_ in PAIRS} == {e.name for e in all_exporters()}
    assert {plan for plan, format_ in PAIRS if format_ != "dockerfile"} == set(PLANS)


@pytest.mark.parametrize(("plan", "name"), PAIRS)
def test_an_export_is_accepted_and_says_what_it_is(plan: str, name: str) -> None:
    answer, one = PLANS[plan], exporter(name)
    files = one.write(answer)
    verdict = one.check(files, answer)
    assert verdict.problems == ()
    assert verdict.validators
    headed = [text for file, text in files.items() if not file.endswith(".json")]
    assert headed
    for text in headed:
        head = "\n".join(text.splitlines()[:4])
        assert answer.plan_id in head
        assert answer.model["name"] in head
        assert one.targets in head


@pytest.mark.parametrize("answer", PLANS.values(), ids=PLANS.keys())
def test_an_obstacle_is_one_clear_sentence(answer: Answer) -> None:
    for one in all_exporters():
        obstacle = one.obstacle(answer)
        if obstacle is not None:
            assert len(obstacle) > 20
            assert "\n" not in obstacle


def test_deepspeed_says_why_it_cannot_split_a_layer() -> None:
    assert "tp 4, pp 2" in str(exporter("deepspeed").obstacle(PLANS["3d"]))


def test_no_script_for_a_device_that_torch_does_not_drive() -> None:
    assert "not on tpu" in str(exporter("torchrun").obstacle(PLANS["pod"]))


Damage = Callable[[str], str]


def swap(old: str, new: str) -> Damage:
    def damage(text: str) -> str:
        assert old in text, f"{old!r} is not in the file"
        return text.replace(old, new, 1)

    return damage


#: Format, plan, file, damage, and words of the sentence that must name it.
DAMAGES: list[tuple[str, str, str, Damage, str]] = [
    ("torchrun", "laptop", "run.sh", swap("--nproc-per-node=1", "--nproc-per-node=4"), "the plan has 1"),
    ("torchrun", "laptop", "run.sh", swap("--standalone", "--standalonee"), "no option --standalonee"),
    ("torchrun", "laptop", "run.sh", swap("export OMP_NUM_THREADS=", "export OMP_THREADS="), "OMP_NUM_THREADS"),
    ("torchrun", "laptop", "run.sh", swap("exec torchrun", "exec 'torchrun"), "No closing quotation"),
    ("torchrun", "laptop", "train.py", swap("'micro_batch': 8", "'micro_batch': 7"), "micro_batch is 7, the plan says 8"),
    ("torchrun", "laptop", "train.py", swap("def main(", "def main(("), "not valid Python"),
    ("accelerate", "hsdp", "accelerate.yaml", swap("mixed_precision: bf16", "mixed_precision: bf17"), "bf17"),
    ("accelerate", "hsdp", "accelerate.yaml", swap("fsdp_reshard_after_forward", "fsdp_reshard_foward"), "fsdp_reshard_foward"),
    ("accelerate", "hsdp", "accelerate.yaml", swap("num_processes: 16", "num_processes: 8"), "num_processes is 8"),
    ("accelerate", "hsdp", "accelerate.yaml", swap("dp_shard_size: 8", "dp_shard_size: 4"), "multiply to 8"),
    ("accelerate", "qlora", "accelerate.yaml", swap("distributed_type: DEEPSPEED", "distributed_type: DEEPSPED"), "DEEPSPED"),
    ("deepspeed", "offload", "ds_config.json", swap('"train_batch_size": 64', '"train_batch_size": 60'), "is not micro-batch"),
    ("deepspeed", "offload", "ds_config.json", swap('"stage": 3', '"stage": 4'), "stage is 0, 1, 2 or 3"),
    ("deepspeed", "offload", "ds_config.json", swap('"gradient_clipping"', '"gradient_cliping"'), "no option gradient_cliping"),
    ("deepspeed", "offload", "ds_config.json", swap('"stage": 3', '"stage": 3, "zero_hpz_partition_size": 3'), "3 does not divide the 16"),
    ("deepspeed", "offload", "ds_config.json", swap('"bf16": {', '"fp16": {"enabled": true}, "bf16": {'), "exclude each other"),
    ("deepspeed", "offload", "ds_config.json", swap('"steps_per_print"', '"optimizer": {"type": "Adamm"}, "steps_per_print"'), "Adamm"),
    ("deepspeed", "offload", "ds_config.json", swap("{", "{{"), "not JSON"),
    ("megatron", "3d", "run.sh", swap("--tensor-model-parallel-size=4", "--tensor-model-parallel-size=3"), "does not divide the 64"),
    ("megatron", "3d", "run.sh", swap("--sequence-parallel", "--sequence-paralell"), "sequence-paralell"),
    ("megatron", "3d", "run.sh", swap("--global-batch-size=512", "--global-batch-size=500"), "not a multiple"),
    ("megatron", "3d", "run.sh", swap("--bf16", "--bf16 --fp16"), "exclude each other"),
    ("megatron", "experts fp8", "run.sh", swap("--num-experts=8", "--num-experts=9"), "num-experts is 9"),
    ("megatron-bridge", "3d", "run.sh", swap("model.sequence_parallel=true", "model.sequence_parallel=5"), "must be true or false"),
    ("megatron-bridge", "3d", "run.sh", swap("model.num_layers", "model.n_layers"), "no option model.n_layers"),
    ("torchtitan", "hsdp", "titan_config.py", swap("shard_degree = 8", "shard_degree = 4"), "shard_degree is 4, the plan says 8"),
    ("torchtitan", "hsdp", "titan_config.py", swap("tensor_parallel_degree", "tensor_paralel_degree"), "tensor_paralel_degree"),
    ("jax", "pod", "train.py", swap("'tensor': 2", "'tensor': 4"), "tensor is 4, the plan says 2"),
    ("jax", "pod", "train.py", swap('"q": P(None, SHARD, "tensor")', '"q": P(None, SHARD, "tenor")'), "JAX:"),
    ("maxtext", "pod", "run.sh", swap("ici_fsdp_parallelism=8", "ici_fsdp_parallelism=4"), "multiply to 8"),
    ("maxtext", "pod", "run.sh", swap("remat_policy", "remat_polcy"), "remat_polcy"),
    ("vllm", "serve", "vllm.yaml", swap("tensor-parallel-size: 2", "tensor-parallel-size: 3"), "cannot be divided"),
    ("vllm", "serve", "vllm.yaml", swap("gpu-memory-utilization: 0.9", "gpu-memory-utilization: 90"), "share of the memory"),
    ("vllm", "serve", "vllm.yaml", swap("max-num-seqs", "swap-space: 4\nmax-num-seqs"), "no option swap-space"),
    ("vllm", "serve", "vllm.yaml", swap("max-num-batched-tokens: 8192", "max-num-batched-tokens: 8"), "below max-num-seqs"),
    ("vllm", "serve", "vllm.yaml", swap("dtype: bfloat16", "dtype: [bfloat16"), "YAML"),
    ("tensorrt-llm", "serve fp8", "config.yaml", swap("pipeline_parallel_size: 1", "pipeline_parallel_size: two"), "whole number"),
    ("tensorrt-llm", "serve fp8", "config.yaml", swap("enable_block_reuse", "block_reuse"), "block_reuse"),
    ("triton", "encode gpu", "bert-base/config.pbtxt", swap("[ 16, 32 ]", "[ 64 ]"), "64 is above max_batch_size 32"),
    ("triton", "encode gpu", "bert-base/config.pbtxt", swap("KIND_GPU", "KIND_CPU"), "names no gpus"),
    ("triton", "encode gpu", "bert-base/config.pbtxt", swap("max_batch_size", "max_batchsize"), "no field max_batchsize"),
    ("triton", "encode gpu", "bert-base/config.pbtxt", swap("TYPE_INT64", '"TYPE_INT64"'), "must be enum"),
    ("triton", "encode gpu", "bert-base/config.pbtxt", swap("instance_group {", "instance_group {{"), "line"),
    ("kserve", "serve", "inferenceservice.yaml", swap("storageUri", "storageURI"), "storageURI"),
    ("kserve", "serve", "inferenceservice.yaml", swap("minReplicas: 1", "minReplicas: two"), "whole number"),
    ("kserve", "serve", "inferenceservice.yaml", swap("nvidia.com/gpu: '2'", "nvidia.com/gpu: '1'"), "wants the same"),
    ("kserve", "serve", "llminferenceservice.yaml", swap("tensor: 2", "tensor: 4"), "tensor is 4"),
    ("kserve", "serve", "inferenceservice.yaml", swap("--max-model-len=", "--max-model-length="), "max-model-length"),
    ("onnxruntime", "encode", "session.py", swap("allow_spinning", "allow_spining"), "allow_spining"),
    ("onnxruntime", "encode", "session.py", swap("'intra_op_num_threads': 2", "'intra_op_num_threads': '2'"), "must be int"),
    ("onnxruntime", "encode", "session.py", swap("ORT_ENABLE_ALL", "ORT_ENABLE_SOME"), "onnxruntime:"),
    ("onnxruntime", "encode", "session.py", swap("CPUExecutionProvider", "CUDAExecutionProvider"), "the plan runs on CPU"),
    ("openvino", "classify", "config.json", swap('"LATENCY"', '"LATENT"'), "LATENT"),
    ("openvino", "classify", "config.json", swap("NUM_STREAMS", "NUM_STREAM"), "no option NUM_STREAM"),
    ("dockerfile", "laptop", "Dockerfile", swap("torch==2.13.0", "torch==2.12.0"), "the plan wants torch==2.13.0"),
    ("dockerfile", "laptop", "Dockerfile", swap('CMD ["bash"', 'CMD ["bash'), "not a JSON list"),
    ("dockerfile", "laptop", "Dockerfile", swap("FROM python:3.11-slim", "FROM python:latest"), "names no version"),
]  # fmt: skip


@pytest.mark.parametrize(("plan", "kept"), [("serve", "auto"), ("serve nodes", "fp8")])
def test_the_cache_is_kept_as_it_was_priced(plan: str, kept: str) -> None:
    files = dict(exporter("vllm").write(PLANS[plan]))
    assert f"kv-cache-dtype: {kept}" in files["vllm.yaml"]
    files["vllm.yaml"] = files["vllm.yaml"].replace(f"kv-cache-dtype: {kept}", "kv-cache-dtype: fp8_e5m2")
    assert any("kv-cache-dtype" in problem for problem in exporter("vllm").check(files, PLANS[plan]).problems)


def test_there_are_damages_of_every_format() -> None:
    assert len(DAMAGES) >= 30
    assert {format_ for format_, *_ in DAMAGES} == {e.name for e in all_exporters()}


@pytest.mark.parametrize(("name", "plan", "file", "damage", "words"), DAMAGES, ids=[f"{d[0]}-{i}" for i, d in enumerate(DAMAGES)])
def test_a_damaged_file_is_refused_by_name(name: str, plan: str, file: str, damage: Damage, words: str) -> None:
    answer, one = PLANS[plan], exporter(name)
    files = dict(one.write(answer))
    files[file] = damage(files[file])
    problems = one.check(files, answer).problems
    assert any(words in problem for problem in problems), problems
