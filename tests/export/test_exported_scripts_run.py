"""The scripts that this machine can run are run: they train, resume, answer, and stop where the plan is for other devices."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from advisor.export import Answer, exporter
from advisor.model.registry import model
from advisor.plan.records import Plan

_SMALL = {
    "layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn_hidden": 128, "vocab": 500, "max_seq": 32,
}  # fmt: skip


def make(name: str = "llama-2-7b", task: str = "train", output: int | None = None, **plan: Any) -> Answer:
    m = model(name)
    assert m.transformer is not None
    p = Plan(**({"framework": "torch", "execution": "eager", "precision": "fp32"} | plan))
    return Answer(
        plan_id="0123456789ab",
        plan=p,
        task=task,
        model={"name": m.name, "family": m.family, "kind": m.kind, "parameters": m.parameters},
        hardware={"name": "local", "devices": p.devices, "nodes": 1},
        workload={"seq_len": 32, "input_len": 24 if output else None, "output_len": output},
        estimate={},
        transformer=asdict(m.transformer) | _SMALL,
        versions={},
        target="cpu-x86",
    )


def write(answer: Answer, name: str, folder: Path) -> None:
    for file, text in exporter(name).write(answer).items():
        (folder / file).write_text(text)


def run(folder: Path, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **(env or {})}
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=170, env=environment)


def losses(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"^step \d+ loss (\S+)", text, re.MULTILINE)]


def test_one_device_trains_and_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write(make(micro_batch=2, grad_accumulation=2, global_batch=4, recompute="full"), "torchrun", tmp_path)
    (tmp_path / "tokens.bin").write_bytes(bytes(4 * 33 * 4))  # one token over and over: it must be learned
    command = [sys.executable, "train.py", "--data", "tokens.bin", "--checkpoint-dir", "state"]
    first = run(tmp_path, *command, "--steps", "3", "--lr", "0.01")
    assert first.returncode == 0, first.stderr[-2000:]
    second = run(tmp_path, *command, "--steps", "5", "--lr", "0.01")
    assert second.returncode == 0, second.stderr[-2000:]
    found = losses(first.stdout) + losses(second.stdout)
    assert len(found) == 5
    assert found == sorted(found, reverse=True)
    assert found[3] < found[2], "training goes on from the checkpoint"
    assert second.stdout.startswith("step 4 ")


def test_two_processes_train_as_replicas(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write(make(dp=2, devices=2, micro_batch=2, global_batch=4, precision="bf16"), "torchrun", tmp_path)
    done = run(tmp_path, "bash", "run.sh", "--steps", "2")
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(losses(done.stdout)) == 2


def test_two_processes_split_every_layer_and_scale_the_loss_of_fp16(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    answer = make(tp=2, devices=2, sequence_parallel=True, micro_batch=2, grad_accumulation=2, global_batch=4, precision="fp16")
    write(answer, "torchrun", tmp_path)
    assert "INIT_SCALE, GROWTH_INTERVAL = 32, 1.0, 65536.0, 2000" in (tmp_path / "train.py").read_text()
    done = run(tmp_path, "bash", "run.sh", "--steps", "2")
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(losses(done.stdout)) == 2


def test_a_model_answers_with_generated_tokens(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write(make(task="infer", output=8, micro_batch=2, global_batch=2, optimizer="none"), "torchrun", tmp_path)
    done = run(tmp_path, sys.executable, "infer.py", "--batches", "2")
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.match(r"batch of 2: median [\d.]+ ms", done.stdout)


def test_a_script_for_more_processes_says_so(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write(make(dp=2, devices=2, micro_batch=2, global_batch=4), "torchrun", tmp_path)
    done = run(tmp_path, sys.executable, "train.py")
    assert done.returncode == 1
    assert "the plan is for 2 processes, 1 run" in done.stderr


def test_jax_trains_over_four_devices_of_the_host(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    answer = make(framework="jax", execution="jit", dp=2, tp=2, devices=4, sharding="fsdp", shard_degree=2, micro_batch=2, global_batch=4)
    write(answer, "jax", tmp_path)
    done = run(tmp_path, sys.executable, "train.py", "--steps", "2", env={"XLA_FLAGS": "--xla_force_host_platform_device_count=4"})
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(losses(done.stdout)) == 2


@pytest.mark.parametrize(
    "name", ["a'b; touch hacked", 'x"""\nimport os; os.abort()\n"""', "p$(touch hacked)`touch hacked`", "a: [b\n- c", "\\", "é\u2028x"]
)
def test_a_hostile_name_stays_text_in_every_format(name: str, tmp_path: Path) -> None:
    from dataclasses import replace

    from advisor.export import all_exporters

    train = make(micro_batch=2, global_batch=2)
    serve = make(
        task="serve", framework="vllm", execution="engine", micro_batch=2, global_batch=2, output=8, precision="bf16", optimizer="none"
    )
    for plain in (train, replace(train, target="cuda"), replace(serve, target="cuda")):
        answer = replace(plain, model={**plain.model, "name": name})
        for one in all_exporters():
            if one.obstacle(answer) is not None or one.name == "jax":
                continue
            files = one.write(answer)
            for file, text in files.items():
                assert not Path(file).is_absolute()
                assert ".." not in file
                if file.endswith(".sh"):
                    (tmp_path / "x.sh").write_text(text.replace("exec ", "echo ").replace("trtllm-serve", "echo"))
                    environment = {"MEGATRON": ".", "MEGATRON_BRIDGE": ".", "MAXTEXT": "."}
                    done = run(tmp_path, "bash", "x.sh", env=environment)
                    assert done.returncode == 0, (one.name, done.stderr)
                    assert not (tmp_path / "hacked").exists()
                elif file.endswith(".py"):
                    compile(text, file, "exec")
            assert one.check(files, answer).problems == (), one.name
