"""The command that mends a state, by target; a reader that knows better says so in the sighting."""

from __future__ import annotations

from advisor.probe.records import State

_ANY: dict[State, str] = {
    "lost": "reset or re-seat it: check `sudo dmesg`, then reboot",
    "timeout": "check `sudo dmesg` for a hung driver, then reload the driver or reboot",
    "crashed": "reinstall the driver's libraries in the version of the kernel module",
}

_FIXES: dict[tuple[str, State], str] = {
    ("cuda", "no_driver"): "install the NVIDIA driver, e.g. `sudo apt install nvidia-open` (or `sudo ubuntu-drivers install`), then reboot",
    ("cuda", "no_library"): "install the driver's libraries (libnvidia-compute), or start the container with `--gpus all`",
    (
        "cuda",
        "version_mismatch",
    ): "reboot, or reload the module: `sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia`",
    ("cuda", "permission_denied"): "start the container with `--gpus all`, or `sudo chmod 666 /dev/nvidia*`",
    ("cuda", "lost"): "`sudo nvidia-smi --gpu-reset`, else reboot; check `sudo dmesg | grep -i xid`",
    ("rocm", "no_driver"): "`sudo modprobe amdgpu`; for Instinct cards install amdgpu-dkms from repo.radeon.com",
    (
        "rocm",
        "permission_denied",
    ): "`sudo usermod -aG render,video $USER`, then log in again; in a container `--device=/dev/kfd --device=/dev/dri`",
    ("rocm", "no_library"): "install ROCm (`sudo apt install rocm-hip-runtime`) or a ROCm build of torch, which brings it",
    ("xpu", "no_driver"): "`sudo modprobe xe` (or i915); the kernel must be new enough for the device",
    ("xpu", "permission_denied"): "`sudo usermod -aG render $USER`, then log in again",
    ("xpu", "no_library"): "install Level Zero and the compute runtime: `sudo apt install libze1 libze-intel-gpu1`",
    ("tpu", "no_driver"): "on a TPU VM use an image with the TPU driver; for vfio `sudo modprobe vfio-pci`",
    ("tpu", "no_library"): "`pip install libtpu` (or `pip install 'jax[tpu]'`)",
    ("tpu", "permission_denied"): "`sudo chmod a+rw /dev/vfio/* /dev/accel*`, or start the container with `--privileged`",
    ("npu", "permission_denied"): "`sudo usermod -aG render $USER`, then log in again",
    ("gaudi", "no_driver"): "install habanalabs-dkms and `sudo modprobe habanalabs`",
    ("gaudi", "no_library"): "install the Gaudi software suite (habanalabs-thunk, habanatools)",
    ("gaudi", "permission_denied"): "`sudo usermod -aG render $USER`, or start the container with `--runtime=habana`",
    ("neuron", "no_driver"): "`sudo apt install aws-neuronx-dkms`, then `sudo modprobe neuron`",
    ("neuron", "no_library"): "`sudo apt install aws-neuronx-runtime-lib`",
    ("neuron", "permission_denied"): "start the container with `--device=/dev/neuron0` (one for each device)",
    ("mps", "no_library"): "install macOS 12.3 or later and a torch build for arm64",
}

_VENDORS: dict[tuple[str, State], str] = {
    ("huawei", "no_driver"): "install the Ascend driver and firmware (Ascend-hdk-*-npu-driver), then reboot",
    (
        "huawei",
        "permission_denied",
    ): "start the container with `--device=/dev/davinci_manager --device=/dev/devmm_svm --device=/dev/hisi_hdc`",
    ("huawei", "no_library"): "install the CANN toolkit and `source /usr/local/Ascend/ascend-toolkit/set_env.sh`",
    ("intel", "no_driver"): "use a kernel with the driver (CONFIG_DRM_ACCEL_IVPU, 6.3 or later) and `sudo modprobe intel_vpu`",
    ("amd", "no_driver"): "use a kernel with the driver (CONFIG_DRM_ACCEL_AMDXDNA, 6.14 or later) and `sudo modprobe amdxdna`",
    ("google-coral", "no_driver"): "build and load the gasket driver: `sudo apt install gasket-dkms`, then `sudo modprobe apex`",
    ("qualcomm", "no_driver"): "`sudo modprobe qaic` (kernel 6.4 or later), with the Cloud AI platform SDK",
    ("tenstorrent", "no_driver"): "install tt-kmd (`sudo apt install tenstorrent-dkms`) and `sudo modprobe tenstorrent`",
    ("graphcore", "no_driver"): "install the Poplar SDK's driver and `sudo modprobe ipu_driver`",
}


def fix_for(target: str, vendor: str | None, state: State) -> str | None:
    """Return the command that mends ``state`` for a device of this target and vendor, or None for a usable one."""
    found = _FIXES.get((target, state))
    if found is None and vendor is not None and target != "rocm":
        found = _VENDORS.get((vendor, state))
    return found or _ANY.get(state)
