"""Power comes from an energy counter, also over its end, or is unknown with the reason."""

from __future__ import annotations

import pytest

from microbench.power import THERMAL, Meter, Nvml, Rapl, meter, throttle_reasons


@pytest.fixture
def package(tmp_path):
    """A powercap folder as Linux shows it: one package with its core domain inside, counters in microjoules."""
    for name, title in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "name").write_text(f"{title}\n")
        (folder / "max_energy_range_uj").write_text("262143328850\n")
        (folder / "energy_uj").write_text("1000000\n")
    return tmp_path


def test_packages_are_added_up_and_their_parts_are_not(package):
    counter = Rapl(package)
    assert counter.reason is None
    assert counter.joules() == [(1.0, pytest.approx(262143.32885))]


def watts(meter, package, microjoules):
    meter.start()
    (package / "intel-rapl:0" / "energy_uj").write_text(str(microjoules))
    # What matters is the energy, not how long the test took.
    began, first = meter.begin
    meter.begin = (began - 10.0, first)
    return meter.stop()


def test_mean_power_also_over_the_end_of_the_counter(package):
    found = watts(Meter(Rapl(package)), package, 501_000_000)
    assert found["power_w"] == pytest.approx(50.0, rel=0.02)
    assert (found["power_source"], found["power_unknown"]) == ("rapl", None)
    (package / "intel-rapl:0" / "energy_uj").write_text("262143328850")
    found = watts(Meter(Rapl(package)), package, 100_000_000)
    assert found["power_w"] == pytest.approx(10.0, rel=0.02)


def test_without_a_counter_the_reason_is_recorded(tmp_path, package):
    found = Meter(Rapl(tmp_path / "none")).stop()
    assert (found["power_w"], found["power_source"]) == (None, None)
    assert "no RAPL package domain" in found["power_unknown"]
    (package / "intel-rapl:0" / "energy_uj").write_text("nonsense")
    assert "cannot be read" in Rapl(package).reason


def test_every_measurement_says_its_power_or_why_not():
    from advisor.bench.children import run_round
    from microbench.protocol import Case, Request

    case = Case(benchmark="gemm", dtype="fp32", params={"m": 8, "n": 8, "k": 8})
    request = Request(backend="numpy", device="cpu", threads=1, cases=(case,), budget_s=2.0, options={"max_samples": 3})
    (row,) = run_round(request)
    detail = row["conditions"]
    assert (detail["power_w"] is None) == (detail["power_unknown"] is not None) == (detail["power_source"] is None)
    assert {"temperature_c", "throttle_count", "cpu_mhz"} <= set(detail)


def test_throttle_reasons_are_named():
    # From nvml.h: idle 0x1, applications clocks 0x2, power cap 0x4, thermal in software 0x20 and hardware 0x40.
    assert throttle_reasons(0x1 | 0x2) == []
    assert throttle_reasons(0x4 | 0x40) == ["power cap", "hardware thermal"]
    assert set(THERMAL) <= set(throttle_reasons(0xFF))


def test_a_cuda_device_is_asked_through_nvml():
    counter = meter("cuda:0").counter
    assert isinstance(counter, Nvml)
    if counter.reason is not None:
        assert "NVML" in counter.reason or "pynvml" in counter.reason
    else:
        assert counter.joules()[0][0] > 0
