"""A measurement counts as measured for the same device, driver and framework version alone; otherwise it is calibrated, with the reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.hardware.platform import Platform
from advisor.hardware.records import HardwareProfile
from advisor.results.store import Store
from advisor.usecases.points import Now, machine_points, same_version
from microbench.protocol import Measurement

SHEET = HardwareProfile(id="cpu", name="CPU", vendor="any", target="cpu-x86", dense_tflops={"fp32": 0.2}, memory_gb_per_s=30.0)
NOW = Now(versions={"torch": "2.13.0+cpu"})


def measurement(version="2.13.0+cpu", driver=None, dtype="fp32", size=1024, **changes):
    fields = {
        "benchmark": "gemm", "backend": "torch", "backend_version": version, "device": "cpu0", "dtype": dtype,
        "params": {"m": size, "n": size, "k": size, "weight": "constant", "threads": 2}, "metric": "flops_per_s", "unit": "FLOP/s",
        "value": 1e11, "low": 9e10, "high": 1.1e11, "run_low": 9.9e10, "run_high": 1.01e11, "samples": 5, "seconds": 0.1, "status": "ok",
        "conditions": {"driver": driver},
    }  # fmt: skip
    return Measurement(**{**fields, **changes})


@pytest.fixture
def points(tmp_path):
    """Return a function that stores measurements of one machine and reads them back as points, against what is installed now."""
    machine = {"fingerprint": "f" * 32, "host": {"os": "linux"}, "devices": [{"id": "cpu0", "target": "cpu-x86"}]}

    def read(*measurements, now=NOW):
        with Store.open(f"sqlite:///{tmp_path / 'a.db'}") as store:
            run = store.start_run(kind="bench", machine_id=store.save_machine(machine), software={}, command=None, settings={})
            for m in measurements:
                store.add_measurement(run, m.to_dict())
            return machine_points(store, machine["fingerprint"], "cpu0", now)

    return read


def curves(points):
    from advisor.cost.local import local_curves

    platform = Platform(name="local", profile=SHEET, devices=1, nodes=1, memory_bytes=8 << 30, threads=2, points=points)
    return local_curves(platform, "torch", 2, {"fp32": 2e11}, 2e10)


def test_the_same_software_is_measured(points):
    found = curves(points(measurement()))
    assert (found.evidence, found.notes) == ("measured", ())


def test_another_version_of_the_framework_is_calibrated_with_the_reason(points):
    found = curves(points(measurement("2.12.1+cpu")))
    assert found.evidence == "calibrated"
    assert "measured with torch 2.12.1+cpu, 2.13.0+cpu is installed now" in found.notes[0]
    assert len(found.measurements) == 1


def test_another_driver_is_calibrated_with_the_reason(points):
    now = Now(versions=NOW.versions, driver="570.86.10")
    assert points(measurement(driver="570.86.10"), now=now)[0].stale is None
    (stale,) = [p for p in points(measurement(driver="535.54.03", size=512), now=now) if p.shape["m"] == 512]
    assert stale.stale == "measured under driver 535.54.03, 570.86.10 is loaded now"
    assert curves((stale,)).evidence == "calibrated"


def test_measuring_again_brings_back_the_evidence_even_of_fewer_sizes(points):
    found = points(measurement("2.12.1+cpu", size=2048), measurement(size=1024))
    assert {p.stale is None for p in found} == {True, False}
    assert curves(found).evidence == "measured"
    assert curves(found).measurements == tuple(p.id for p in found if p.stale is None)
    # A dtype that was not measured again keeps the whole from being measured.
    mixed = points(measurement("2.12.1+cpu", dtype="bf16"), measurement())
    assert curves(mixed).evidence == "calibrated"


def test_a_contended_or_wrong_result_is_no_point_at_all(points):
    assert points(measurement(status="contended"), measurement(status="wrong_result", size=512)) == ()


def test_reading_a_disk_is_no_bandwidth_of_memory(points):
    disk = {"operation": "read", "level": "disk", "bytes": 1 << 26, "threads": 2}
    assert points(measurement(benchmark="bandwidth", metric="bytes_per_s", unit="B/s", params=disk)) == ()


version = st.from_regex(r"[0-9]{1,2}(\.[0-9]{1,2}){1,2}", fullmatch=True)


@given(version, st.sampled_from(["", "+cpu", "+cu126"]), st.sampled_from(["", "+cpu", "+cu126"]))
def test_a_local_part_counts_where_both_have_one(number, one, other):
    assert same_version(number + one, number + other) == (one == other or not one or not other)
    assert not same_version(number, number + ".9")
