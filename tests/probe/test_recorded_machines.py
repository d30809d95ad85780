"""Small recorded machines of our own making: every fact they state must hold, by the same runner that people use."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve()
PROJECT = HERE.parents[2]
RUNNER = PROJECT / "benchmarks" / "conformance"
FOLDER = PROJECT / "tests" / "data" / "machines"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.fixture(scope="module")
def runner() -> Iterator[tuple[ModuleType, ModuleType]]:
    """Give the modules ``machines`` and ``rules`` of the runner, which is a folder and no package."""
    import importlib

    sys.path.insert(0, str(RUNNER))
    yield importlib.import_module("machines"), importlib.import_module("rules")
    sys.path.remove(str(RUNNER))
    for name in ("machines", "rules"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", NAMES)
def test_recorded_machine(name: str, runner: tuple[ModuleType, ModuleType]) -> None:
    from advisor.probe.assemble import probe_machine
    from advisor.probe.root import Root

    machines, rules = runner
    machine = next(item for item in machines.own_machines(FOLDER) if item.name == name)
    with machine.laid_out() as folder:
        document = probe_machine(Root(folder)).to_dict()
    facts = list(rules.facts_of(machine, document))
    assert len(facts) >= 2
    assert [(fact.name, fact.claimed, fact.probed) for fact in facts if not fact.holds] == []
    for device in document["devices"]:
        assert device["state"] in ("usable", "unknown") or (device["reason"] and device["fix"])


def test_there_are_recorded_machines_of_every_kind() -> None:
    import yaml

    kinds = {yaml.safe_load(path.read_text(encoding="utf-8"))["kind"] for path in FOLDER.glob("*.yaml")}
    assert len(NAMES) >= 40
    assert kinds >= {
        "cgroup", "cpuinfo", "kfd", "lspci", "neuron-ls", "npu", "npu-smi", "nvidia-smi", "nvidia-smi-text", "rocm-smi", "sysctl",
        "sysfs-amdgpu", "tpu",
    }  # fmt: skip


def test_the_runner_prints_a_table_and_fails_for_a_claim_that_does_not_hold(tmp_path: Path) -> None:
    record = tmp_path / "cpuinfo" / "liar"
    record.mkdir(parents=True)
    (record / "cpuinfo").write_text("processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu avx2\n")
    (record / "expected.yaml").write_text("arch: x86_64\nlogical_cpus: 2\nfeatures: {avx2: true, avx512f: false}\n")
    result = subprocess.run(
        [sys.executable, str(RUNNER), str(tmp_path), "--verbose"], capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False
    )
    assert result.returncode == 1
    assert "cpuinfo/liar: logical_cpus: claimed 2, probed 1" in result.stdout
    assert result.stdout.splitlines()[-1].split() == ["total", "3", "of", "4", "facts", "hold"]
