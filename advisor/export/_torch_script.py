"""train.py and infer.py: a self-contained script that runs a plan with torch's public interfaces, put together from the parts it needs."""

from __future__ import annotations

from typing import Any

from advisor.export._spec import Answer
from advisor.export._text import header, literal, template

#: Networks that torchvision builds by name (torchvision.models, 0.2x).
TORCHVISION = {
    **{f"resnet-{n}": f"resnet{n}" for n in (18, 34, 50, 101, 152)},
    **{f"vgg-{n}": f"vgg{n}" for n in (16, 19)},
    **{f"densenet-{n}": f"densenet{n}" for n in (121, 169, 201)},
    **{f"efficientnet-b{n}": f"efficientnet_b{n}" for n in range(8)},
    "mobilenet-v2": "mobilenet_v2",
    "inception-v3": "inception_v3",
}

#: Plan precision to the dtype of the products.
_DTYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}

#: Device module of torch and its collective library (torch.distributed, "Backends"), by target.
_DEVICES = {"cuda": ("cuda", "nccl"), "rocm": ("cuda", "nccl"), "xpu": ("xpu", "xccl"), "npu": ("npu", "hccl"), "gaudi": ("hpu", "hccl")}

#: Loss scaling of fp16: torch.amp.GradScaler's own defaults.
INIT_SCALE, GROWTH_INTERVAL = 65536.0, 2000
_CLIP = 1.0
#: LoRA's alpha over its rank: 2, the usual choice of Hugging Face PEFT's examples.
_ALPHA_OVER_RANK = 2.0
#: Megatron-LM pads the vocabulary to a multiple of this times tp.
_VOCABULARY_MULTIPLE = 128


def obstacle(answer: Answer) -> str | None:
    """Return why no script can be written for the plan, or None."""
    p, m = answer.plan, answer.model
    if not answer.is_cpu and answer.target not in _DEVICES:
        return f"the script runs on CPUs and on {', '.join(_DEVICES)} devices, not on {answer.target}"
    if not answer.transformer or m["kind"] == "convolutional":
        return None if m["name"] in TORCHVISION else f"torchvision has no network called {m['name']}, and the script builds transformers"
    if m["kind"] not in ("decoder", "encoder"):
        return f"the script builds decoders and encoders, {m['name']} is of the kind {m['kind']}"
    return _unbuildable(answer) or (_untrainable(answer) if answer.is_training else _uninferable(answer)) or _unsupported(p)


def _unbuildable(answer: Answer) -> str | None:
    t = answer.transformer
    if t["experts"] > 1:
        return "the script has no mixture-of-experts layer; `megatron` and `torchtitan` do"
    if t.get("kv_lora_rank"):
        return "the script has no latent attention; `megatron` does"
    return None


def _unsupported(p: Any) -> str | None:
    if p.cp > 1:
        return f"the script does not split sequences (cp {p.cp}); `megatron` and `torchtitan` do"
    if p.precision not in _DTYPES:
        return f"torch alone has no {p.precision} training; `megatron` has"
    return None


def _untrainable(answer: Answer) -> str | None:
    p = answer.plan
    if p.adapter == "qlora":
        return "4-bit frozen weights are not in torch's own interfaces; `accelerate` launches a script that uses bitsandbytes"
    if p.adapter == "lora" and layout(answer) == "mesh":
        return "the script trains LoRA adapters on whole replicas only"
    if p.offload == "optimizer":
        return "torch offers no offload of the optimizer alone; `deepspeed` does"
    if p.offload == "params" and p.dp == 1:
        return "torch offloads weights through FSDP, which needs dp above 1"
    return None


def _uninferable(answer: Answer) -> str | None:
    p = answer.plan
    if p.pp > 1:
        return f"the script answers requests without a pipeline (pp {p.pp}); `vllm` has one"
    if p.quantization not in ("none", "int8", "int4", "int8-dynamic"):
        return f"torch has no {p.quantization} weights; `vllm` and `tensorrt-llm` do"
    return None


def layout(answer: Answer) -> str:
    """Return how the script distributes the model: ``single``, ``ddp`` or ``mesh``."""
    p = answer.plan
    if p.tp * p.pp > 1 or (p.dp > 1 and p.sharding != "none"):
        return "mesh"
    return "ddp" if p.dp > 1 else "single"


def settings(answer: Answer) -> dict[str, Any]:
    """Return PLAN and MODEL, the literals of the script that a check compares."""
    p = answer.plan
    names = ("dp", "tp", "pp", "vpp", "devices", "micro_batch", "grad_accumulation", "global_batch", "sharding", "shard_degree")
    plan: dict[str, Any] = {name: getattr(p, name) for name in (*names, "sequence_parallel", "offload")}
    return {"PLAN": plan, "MODEL": _model(answer)}


def _model(answer: Answer) -> dict[str, Any]:
    t = answer.transformer
    if not t or answer.model["kind"] == "convolutional":
        return {"torchvision": TORCHVISION[answer.model["name"]], "resolution": int(answer.model.get("resolution") or 224)}
    multiple = _VOCABULARY_MULTIPLE * answer.plan.tp if answer.plan.tp > 1 else 1
    names = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "gated_mlp", "causal", "norm", "learned_positions")
    return {
        **{name: t[name] for name in names},
        "vocab": -(-t["vocab"] // multiple) * multiple,
        "max_seq": max(t["max_seq"], answer.seq_len) if t["learned_positions"] else answer.seq_len,
        "bias": t["norm"] == "layernorm",
        # First and last pipeline stage hold a copy each.
        "tied_embeddings": t["tied_embeddings"] and answer.plan.pp == 1,
    }


def _constants(answer: Answer) -> str:
    p = answer.plan
    device, backend = ("cpu", "gloo") if answer.is_cpu else _DEVICES[answer.target]
    both = settings(answer)
    text = literal("PLAN", both["PLAN"]) + literal("MODEL", both["MODEL"])
    text += f'DEVICE, BACKEND, THREADS = "{device}", "{backend}", {int(p.threads)}\n'
    text += f"DTYPE, TF32 = torch.{_DTYPES[p.precision]}, {p.precision in ('tf32', 'bf16', 'fp16')}\n"
    text += f"EXECUTION, RECOMPUTE = {p.execution!r}, {p.recompute!r}\n"
    if answer.is_training:
        text += f"SEQ_LEN, CLIP, INIT_SCALE, GROWTH_INTERVAL = {answer.seq_len}, {_CLIP}, {INIT_SCALE}, {GROWTH_INTERVAL}\n"
        text += f"RANK, ALPHA_OVER_RANK = {p.adapter_rank}, {_ALPHA_OVER_RANK}\n" if p.adapter == "lora" else ""
    else:
        prompt = int(answer.workload.get("input_len") or answer.seq_len)
        text += f"PROMPT, OUTPUT = {prompt}, {int(answer.workload.get('output_len') or 0)}\n"
    return text


def _docstring(answer: Answer, targets: str, *notes: str) -> str:
    # A name may hold anything: quotes and backslashes must not end the docstring.
    text = header(answer, targets, *notes, mark="").replace("\\", "\\\\").replace('"', '\\"')
    return '"""' + "\n".join(line.strip() for line in text.splitlines()) + '\n"""\n\n'


def _with_imports(head: str, imports: str) -> str:
    return head.replace("from torch.nn import functional\n", f"from torch.nn import functional\n{imports}")


def _mesh_imports(pipeline: bool) -> str:
    lines = template("torch_mesh_imports.py.txt")
    stages = "from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B\n"
    return lines.replace("from torch.distributed.tensor import", f"{stages}from torch.distributed.tensor import") if pipeline else lines


def _split_imports() -> str:
    """Return what tensor parallelism alone needs of the mesh's imports."""
    lines = template("torch_mesh_imports.py.txt").replace("import DTensor, Replicate", "import Replicate")
    return "\n".join(line for line in lines.split("\n") if "torch.distributed.fsdp" not in line)


def train_script(answer: Answer, targets: str) -> str:
    """Return train.py."""
    p, how, text = answer.plan, layout(answer), bool(answer.transformer) and answer.model["kind"] != "convolutional"
    mesh = how == "mesh"
    head = template("torch_train_head.py.txt")
    if mesh:
        head = _with_imports(
            head.replace("import contextlib\nimport os", "import contextlib\nimport math\nimport os"), _mesh_imports(p.pp > 1)
        )
    parts = [_docstring(answer, targets, *_notes(answer)), head]
    parts += [_constants(answer)]
    if mesh:
        parts += ["MESH: DeviceMesh | None = None\nGOOD_STEPS = 0  # since the last overflow\n"]
    parts += [template("torch_model.py.txt"), template("torch_text.py.txt")] if text else [_images_model(), template("torch_images.py.txt")]
    if p.adapter == "lora":
        parts += [template("torch_lora.py.txt")]
    distribute = template(f"torch_distribute_{how}.py.txt")
    parts += [distribute.replace("build().to", "adapt(build()).to") if p.adapter == "lora" else distribute]
    parts += [template(f"torch_apply_{'mesh' if mesh else 'plain'}.py.txt")]
    parts += [template("torch_optimizer.py.txt") + _optimizer(answer)]
    parts += [template(f"torch_step_{'pipeline' if p.pp > 1 else 'plain'}.py.txt"), template("torch_start.py.txt")]
    return "".join([*parts, template("torch_train_main.py.txt")])


def infer_script(answer: Answer, targets: str) -> str:
    """Return infer.py."""
    p, text = answer.plan, bool(answer.transformer) and answer.model["kind"] != "convolutional"
    head = template("torch_infer.py.txt")
    head = _with_imports(head, _split_imports()) if p.tp > 1 else head
    parts = [_docstring(answer, targets, *_notes(answer)), head, _constants(answer)]
    if text:
        parts += [template("torch_model.py.txt"), template("torch_text.py.txt").split("\n\n\ndef loss_of")[0] + "\n"]
    else:
        parts += [_images_model()]
    if p.tp > 1:
        parts += ["\n\ndef split(" + template("torch_distribute_mesh.py.txt").split("def split(")[1].split("\n\n\ndef ")[0] + "\n"]
    parts += [_quantized(p.quantization), _prepared(p.execution)]
    parts += [template(f"torch_infer_{'text' if text else 'images'}.py.txt"), template("torch_start.py.txt")]
    main = template("torch_infer_main.py.txt")
    if p.tp == 1:
        main = main.replace(main[main.index('    if PLAN["tp"] > 1:') : main.index("    return model\n")], "")
    return "".join([*parts, main])


def _notes(answer: Answer) -> list[str]:
    t, p = answer.transformer, answer.plan
    notes = ["The model has the sizes of the plan and random weights: it shows the speed and the memory, put yours in its place."]
    if t and t.get("window") and t["window"] < answer.seq_len:
        notes.append(f"Attention is over all tokens; the model's own window is {t['window']}.")
    if t and t["tied_embeddings"] and p.pp > 1:
        notes.append("First and last stage hold the shared embedding apart.")
    if p.sharding in ("zero1", "zero2") and answer.is_training:
        notes.append(f"{p.sharding} is written as FSDP2 that keeps gathered weights, which also shards the gradients.")
    if p.sharding == "zero3":
        notes.append("zero3 is written as FSDP2, which shards the same states.")
    return notes


def _images_model() -> str:
    return template("torch_convolutional.py.txt")


def _optimizer(answer: Answer) -> str:
    if answer.plan.optimizer == "sgd":
        return "    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)\n"
    if answer.plan.optimizer == "adam8bit":
        return "    from bitsandbytes.optim import AdamW8bit  # pip install bitsandbytes\n\n    return AdamW8bit(parameters, lr=lr)\n"
    return "    return torch.optim.AdamW(parameters, lr=lr, betas=(0.9, 0.95), weight_decay=0.1)\n"


def _quantized(quantization: str) -> str:
    body = {
        "none": "    return model\n",
        "int8-dynamic": "    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)\n",
        "int8": (
            "    from torchao.quantization import Int8WeightOnlyConfig, quantize_  # pip install torchao\n\n"
            "    quantize_(model, Int8WeightOnlyConfig())\n    return model\n"
        ),
        "int4": (
            "    from torchao.quantization import Int4WeightOnlyConfig, quantize_  # pip install torchao\n\n"
            "    quantize_(model, Int4WeightOnlyConfig(group_size=128))\n    return model\n"
        ),
    }
    return f"\n\ndef quantized(model: nn.Module) -> nn.Module:\n{body[quantization]}"


def _prepared(execution: str) -> str:
    body = {
        "eager": "    return model\n",
        "compile": "    return torch.compile(model)\n",
        "script": "    return torch.jit.freeze(torch.jit.trace(model, example))\n",
    }
    return f"\n\ndef prepared(model: nn.Module, example: torch.Tensor) -> nn.Module:\n{body.get(execution, body['eager'])}"
