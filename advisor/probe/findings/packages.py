"""Python packages that are wrong for this machine or for one another."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.probe.findings._context import Context
from advisor.probe.records import Finding, Framework

#: What to install for a target instead of a CPU build.
_TORCH_WHEELS = {
    "cuda": "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu128",
    "rocm": "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/rocm6.4",
    "xpu": "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/xpu",
}


def cpu_only(context: Context) -> Iterator[Finding]:
    """A CPU build of a framework beside a GPU."""
    gpus = [target for target in ("cuda", "rocm", "xpu") if context.has_target(target)]
    if not gpus:
        return
    version = context.packages.get("torch")
    torch = _framework(context, "torch")
    if version is not None:
        build = torch.build if torch is not None and torch.build else None
        # Wheels of PyTorch's own index say what they are in their local version (2.8.0+cpu).
        if build == "cpu" or (build is None and "+cpu" in version):
            yield Finding(
                code="TORCH_CPU_ONLY",
                severity="error",
                message=f"torch {version} is a CPU build on a machine with {gpus[0]} devices.",
                evidence="version and build of the installed torch",
                fix=_TORCH_WHEELS[gpus[0]],
            )
        elif build in ("cuda", "rocm", "xpu") and build not in gpus:
            yield Finding(
                code="TORCH_WRONG_BUILD",
                severity="error",
                message=f"torch {version} is built for {build}, and this machine has {', '.join(gpus)} devices.",
                evidence="version and build of the installed torch",
                fix=_TORCH_WHEELS[gpus[0]],
            )
    if "jax" in context.packages and "cuda" in gpus and not any(re.match(r"jax-cuda\d+-(plugin|pjrt)", name) for name in context.packages):
        jax = _framework(context, "jax")
        if jax is None or "cuda" not in jax.targets:
            yield Finding(
                code="JAX_CPU_ONLY",
                severity="warning",
                message=f"jax {context.packages['jax']} has no CUDA plug-in on a machine with cuda devices.",
                evidence="no jax-cuda*-plugin distribution",
                fix='pip install "jax[cuda13]"',
            )
    if "cuda" in gpus and "onnxruntime" in context.packages and "onnxruntime-gpu" not in context.packages:
        yield Finding(
            code="ORT_CPU_ONLY",
            severity="info",
            message="onnxruntime is the CPU build on a machine with cuda devices.",
            evidence="distribution onnxruntime without onnxruntime-gpu",
            fix="pip uninstall -y onnxruntime && pip install onnxruntime-gpu",
        )
    for name in ("tensorflow-cpu", "intel-tensorflow"):
        if name in context.packages:
            yield Finding(
                code="TENSORFLOW_CPU_ONLY",
                severity="info",
                message=f"{name} is a CPU build on a machine with {gpus[0]} devices.",
                evidence=f"distribution {name}",
                fix=f'pip uninstall -y {name} && pip install "tensorflow[and-cuda]"',
            )


def kernels(context: Context) -> Iterator[Finding]:
    """torch carries no code for a GPU's compute capability."""
    torch = _framework(context, "torch")
    archs = torch.details.get("arch_list") if torch is not None else None
    if not isinstance(archs, list) or not archs:
        return
    for arch in sorted({device.arch for device in context.devices if device.target == "cuda" and device.arch}):
        match = re.fullmatch(r"sm_(\d+)(\d)[a-z]?", arch)
        if match and not has_kernel((int(match[1]), int(match[2])), [str(item) for item in archs]):
            yield Finding(
                code="TORCH_NO_KERNEL",
                severity="error",
                message=f"torch {context.packages.get('torch', '')} has no code for {arch}: its first kernel fails.",
                evidence=f"torch.cuda.get_arch_list(): {', '.join(map(str, archs))}",
                fix=_TORCH_WHEELS["cuda"],
            )


def has_kernel(capability: tuple[int, int], archs: list[str]) -> bool:
    """Tell whether code for ``archs`` runs on a GPU of ``capability`` (CUDA C++ Programming Guide, compatibility).

    ``sm_XY`` is machine code: same major, same or later minor. ``compute_XY`` is PTX: any same or later capability. A suffix ``a`` runs on
    that very capability only, ``f`` on its family: same major, same or later minor.
    """
    for arch in archs:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", arch)
        if not match:
            continue
        built = (int(match[2]), int(match[3]))
        if match[4] == "a":
            if built == capability:
                return True
        elif match[1] == "compute" and not match[4]:
            if built <= capability:
                return True
        elif built[0] == capability[0] and built[1] <= capability[1]:
            return True
    return False


def broken(context: Context) -> Iterator[Finding]:
    """A framework that is installed and cannot be used."""
    for framework in context.frameworks:
        if framework.version is not None and framework.state not in ("usable", "unknown", "no_library"):
            yield Finding(
                code="FRAMEWORK_BROKEN",
                severity="error",
                message=f"{framework.name} {framework.version} is installed and does not work: {framework.reason}",
                evidence=f"state {framework.state}, asked in a child",
                fix=framework.fix,
            )
        elif framework.version is not None and framework.state == "no_library":
            yield Finding(
                code="FRAMEWORK_LACKS_LIBRARY",
                severity="warning",
                message=f"{framework.name} {framework.version} lacks a library: {framework.reason}",
                evidence="import in a child",
                fix=framework.fix,
            )


def pairs(context: Context) -> Iterator[Finding]:
    """Packages that do not go together."""
    packages = context.packages
    if "torch" in packages and "numpy" not in packages:
        yield Finding(
            code="TORCH_WITHOUT_NUMPY",
            severity="warning",
            message="torch is installed without numpy: tensors cannot be turned into arrays, and many libraries fail on import.",
            evidence="no distribution numpy",
            fix="pip install numpy",
        )
    builds = [
        name
        for name in packages
        if name in ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-rocm", "onnxruntime-openvino")
    ]
    if len(builds) > 1:
        yield Finding(
            code="ORT_CONFLICT",
            severity="warning",
            message=f"{' and '.join(sorted(builds))} are both installed and share one folder: which one works is chance.",
            evidence="installed distributions",
            fix=f"pip uninstall -y {' '.join(sorted(builds))} && pip install {sorted(builds)[-1]}",
        )
    flows = [
        name
        for name in packages
        if name in ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-rocm", "intel-tensorflow", "tf-nightly")
    ]
    if len(flows) > 1:
        yield Finding(
            code="TENSORFLOW_CONFLICT",
            severity="warning",
            message=f"{' and '.join(sorted(flows))} are both installed and share one folder: which one works is chance.",
            evidence="installed distributions",
            fix=f"pip uninstall -y {' '.join(sorted(flows))}, then install one",
        )
    vision, torch = packages.get("torchvision"), packages.get("torch")
    if vision and torch:
        # torch 2.N goes with torchvision 0.(N+15) (the compatibility table of pytorch/vision).
        mine, theirs = re.match(r"2\.(\d+)", torch), re.match(r"0\.(\d+)", vision)
        if mine and theirs and int(theirs[1]) != int(mine[1]) + 15:
            yield Finding(
                code="TORCHVISION_MISMATCH",
                severity="warning",
                message=f"torchvision {vision} belongs to torch 2.{int(theirs[1]) - 15}, and torch is {torch}: its operators do not load.",
                evidence="installed distributions",
                fix="pip install --upgrade torch torchvision (from one index)",
            )


def stray(context: Context) -> Iterator[Finding]:
    """Packages that are deprecated, foreign, or out of place here."""
    packages = context.packages
    if "pynvml" in packages:
        yield Finding(
            code="PYNVML_DEPRECATED",
            severity="warning" if packages["pynvml"] < "12" else "info",
            message=f"pynvml {packages['pynvml']} is deprecated and can shadow the module of nvidia-ml-py.",
            evidence="distribution pynvml",
            fix="pip uninstall -y pynvml && pip install --force-reinstall nvidia-ml-py",
        )
    if "amdsmi" in packages and not context.has_target("rocm"):
        yield Finding(
            code="AMDSMI_WITHOUT_ROCM",
            severity="warning",
            message="amdsmi is installed on a machine without AMD GPUs: its import fails without ROCm and takes ray's detection down.",
            evidence=f"distribution amdsmi {packages['amdsmi']}",
            fix="pip uninstall -y amdsmi",
        )
    if "microbench" in packages:
        yield Finding(
            code="FOREIGN_MICROBENCH",
            severity="warning",
            message="Another project's package microbench is installed; `import microbench` may find it instead of this project's.",
            evidence=f"distribution microbench {packages['microbench']}",
            fix="pip uninstall -y microbench, then reinstall hw-advisor",
        )


def _framework(context: Context, name: str) -> Framework | None:
    return next((item for item in context.frameworks if item.name == name), None)


FINDERS = (cpu_only, kernels, broken, pairs, stray)
