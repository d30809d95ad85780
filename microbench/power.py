"""Energy counters: RAPL of CPU packages, NVML of NVIDIA devices; a number where they can be read, else the reason. NVML's state too.

RAPL counts microjoules since boot (Documentation/power/powercap of the Linux kernel); AMD's counters stand under the same name. Power is
the package's or the board's, whoever uses it. Standard library, and pynvml for CUDA devices where it is installed.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

#: Why a device holds its clock down: bits of nvmlClocksEventReasons (nvml.h), those that cost speed under load.
THROTTLE_BITS = {0x04: "power cap", 0x08: "hardware slowdown", 0x20: "software thermal", 0x40: "hardware thermal", 0x80: "power brake"}
THERMAL = ("software thermal", "hardware thermal", "hardware slowdown")
RAPL_ROOT = Path("/sys/class/powercap")


class Rapl:
    """The package domains of RAPL below ``root``."""

    source = "rapl"

    def __init__(self, root: Path = RAPL_ROOT) -> None:
        packages = [path for path in sorted(root.glob("intel-rapl:*")) if _text(path / "name").startswith("package")]
        self.reason = None if packages else f"no RAPL package domain below {root} (virtual machines show none)"
        self.domains: list[tuple[Path, int]] = []
        for path in packages:
            try:
                self.domains.append((path / "energy_uj", int(_text(path / "max_energy_range_uj") or 0)))
                int((path / "energy_uj").read_text())
            except PermissionError:
                self.reason = f"{path / 'energy_uj'} can be read by root alone"
            except (OSError, ValueError) as error:
                self.reason = f"{path / 'energy_uj'} cannot be read: {error}"

    def joules(self) -> list[tuple[float, float]]:
        """Return each domain's counter and the range at whose end it begins again, in joules."""
        return [(int(path.read_text()) / 1e6, whole / 1e6) for path, whole in self.domains]

    def state(self) -> dict[str, Any]:
        """Return nothing: what a CPU says of its state is in ``microbench.conditions``."""
        return {}


class Nvml:
    """The energy counter of one CUDA device (Volta and newer count; older ones say so)."""

    source = "nvml"

    def __init__(self, device: str) -> None:
        self.reason: str | None = None
        try:
            import pynvml

            pynvml.nvmlInit()
            self.nvml, self.handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(int(device.partition(":")[2] or 0))
            self.joules()
        except ImportError:
            self.reason = "pynvml is not installed; `pip install nvidia-ml-py` brings it"
        except Exception as error:  # noqa: BLE001 - a driver's errors are of its own types; each is the reason
            self.reason = f"NVML does not tell the energy: {error}"

    def joules(self) -> list[tuple[float, float]]:
        """Return the counter in joules; it does not begin again."""
        return [(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle) / 1e3, 0.0)]

    def state(self) -> dict[str, Any]:
        """Return the device's temperature, clock and throttle reasons, each None where NVML does not tell it."""
        asked: dict[str, Any] = {"device_temperature_c": None, "device_mhz": None, "device_throttle": None}
        if self.reason is not None:
            return asked
        questions = {
            "device_temperature_c": lambda: self.nvml.nvmlDeviceGetTemperature(self.handle, self.nvml.NVML_TEMPERATURE_GPU),
            "device_mhz": lambda: self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM),
            "device_throttle": lambda: throttle_reasons(self.nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self.handle)),
        }
        for name, ask in questions.items():
            with contextlib.suppress(self.nvml.NVMLError):
                asked[name] = ask()
        return asked


def throttle_reasons(bits: int) -> list[str]:
    """Return the names of the reasons set in ``bits``."""
    return [name for bit, name in THROTTLE_BITS.items() if bits & bit]


class Meter:
    """Mean power between ``start`` and ``stop``."""

    def __init__(self, counter: Rapl | Nvml) -> None:
        self.counter = counter
        self.begin: tuple[float, list[tuple[float, float]]] | None = None

    def start(self) -> None:
        """Begin an interval."""
        if self.counter.reason is None:
            self.begin = (time.perf_counter(), self.counter.joules())

    def stop(self) -> dict[str, Any]:
        """Return ``power_w`` (mean watts since ``start``, None where unknown), ``power_source``, ``power_unknown`` and the device's state.

        ``power_unknown`` is the reason where there is no number.
        """
        state = self.counter.state()
        if self.counter.reason is not None or self.begin is None:
            unknown = self.counter.reason or "the counter was not started"
            return {"power_w": None, "power_source": None, "power_unknown": unknown, **state}
        began, first = self.begin
        seconds = time.perf_counter() - began
        total = 0.0
        for (before, whole), (after, _) in zip(first, self.counter.joules(), strict=True):
            total += after - before if after >= before else after - before + whole
        return {"power_w": round(total / max(seconds, 1e-9), 2), "power_source": self.counter.source, "power_unknown": None, **state}


def meter(device: str) -> Meter:
    """Return the meter of a device as frameworks name it: ``cpu``, ``cuda:0``."""
    return Meter(Nvml(device) if device.startswith("cuda") else Rapl())


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
