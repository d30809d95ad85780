"""Instruction sets: hidden by a hypervisor, refused by the kernel, or capped by a variable."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.probe.findings._context import Context
from advisor.probe.records import Finding

#: Features that every product of a microarchitecture has (Intel and AMD software optimization manuals): absent ones were hidden.
_EXPECTED: dict[str, tuple[str, ...]] = {
    "haswell": ("avx2",),
    "broadwell": ("avx2",),
    "skylake-server": ("avx512f",),
    "cascadelake": ("avx512f", "avx512_vnni"),
    "cooperlake": ("avx512f", "avx512_vnni", "avx512_bf16"),
    "icelake-server": ("avx512f", "avx512_vnni"),
    "sapphirerapids": ("avx512f", "avx512_bf16", "avx512_fp16", "amx_tile"),
    "emeraldrapids": ("avx512f", "avx512_bf16", "avx512_fp16", "amx_tile"),
    "graniterapids": ("avx512f", "avx512_bf16", "avx512_fp16", "amx_tile"),
    "zen": ("avx2",),
    "zen+": ("avx2",),
    "zen2": ("avx2",),
    "zen3": ("avx2",),
    "zen4": ("avx2", "avx512f", "avx512_bf16"),
    "zen5": ("avx2", "avx512f", "avx512_bf16"),
    "Neoverse-V1": ("sve", "bf16", "i8mm"),
    "Neoverse-V2": ("sve2", "bf16", "i8mm"),
    "Neoverse-N2": ("sve2", "bf16", "i8mm"),
    "A64FX": ("sve",),
}

#: Variables that cap what a library uses, with the library and the values that mean the best there is.
_CAPS: tuple[tuple[str, str, frozenset[str]], ...] = (
    ("ATEN_CPU_CAPABILITY", "PyTorch", frozenset({"avx512", "sve256", "amx"})),
    ("ONEDNN_MAX_CPU_ISA", "oneDNN", frozenset({"default", "all", "avx10_1_512_amx", "avx10_1_512_amx_fp16", "avx512_core_amx_fp16"})),
    ("DNNL_MAX_CPU_ISA", "oneDNN", frozenset({"default", "all", "avx10_1_512_amx", "avx10_1_512_amx_fp16", "avx512_core_amx_fp16"})),
    ("MKL_ENABLE_INSTRUCTIONS", "MKL", frozenset({"avx512_e4", "avx512_e5"})),
    ("MKL_DEBUG_CPU_TYPE", "MKL", frozenset()),
    ("OPENBLAS_CORETYPE", "OpenBLAS", frozenset()),
    ("NPY_DISABLE_CPU_FEATURES", "NumPy", frozenset({""})),
    ("ORT_DISABLE_ALL_OPTIMIZATION", "ONNX Runtime", frozenset({"0", ""})),
)


def masked(context: Context) -> Iterator[Finding]:
    """The microarchitecture has features that this kernel does not show."""
    cpu = context.host.cpu
    missing = [flag for flag in _EXPECTED.get(cpu.microarchitecture or "", ()) if cpu.isa and flag not in cpu.isa]
    if missing:
        cause = context.host.virtualization
        by = f"the hypervisor ({cause})" if cause not in (None, "none") else "the firmware or the kernel's command line"
        yield Finding(
            code="ISA_MASKED",
            severity="warning",
            message=f"{cpu.microarchitecture} has {', '.join(missing)}, but {by} hides it: matrix kernels fall back to slower code.",
            evidence="flags of /proc/cpuinfo",
            fix="choose a CPU model that passes features through (QEMU -cpu host), another instance type, or remove clearcpuid= / nosve",
        )


def amx(context: Context) -> Iterator[Finding]:
    """AMX is there and a process may not use it."""
    if context.facts.amx_permission is False:
        yield Finding(
            code="AMX_NOT_PERMITTED",
            severity="warning",
            message="The processor has AMX, but this process gets no permission for its tiles: code that insists on it dies with SIGILL.",
            evidence=f"arch_prctl(ARCH_REQ_XCOMP_PERM): {context.facts.amx_reason}",
            fix="use Linux 5.16 or later, a seccomp profile that allows arch_prctl, and a hypervisor that enables XTILEDATA",
        )


def capped(context: Context) -> Iterator[Finding]:
    """A variable tells a library to use less than there is."""
    for name, library, best in _CAPS:
        value = context.environ.get(name)
        if value is not None and value.lower() not in best:
            yield Finding(
                code="ISA_CAPPED",
                severity="warning",
                message=f"{name} limits the instructions that {library} uses.",
                evidence=f"{name}={value}",
                fix=f"unset {name}",
            )
    tunables = context.environ.get("GLIBC_TUNABLES", "")
    if "cpu.hwcaps" in tunables and "-AVX" in tunables.upper():
        yield Finding(
            code="ISA_CAPPED",
            severity="info",
            message="GLIBC_TUNABLES switches instruction sets off for the C library.",
            evidence=f"GLIBC_TUNABLES={tunables}",
            fix="unset GLIBC_TUNABLES",
        )


def old(context: Context) -> Iterator[Finding]:
    """No AVX2: several wheels do not even start."""
    cpu = context.host.cpu
    if context.host.arch == "x86_64" and cpu.isa and "avx2" not in cpu.isa:
        without_avx = "avx" not in cpu.isa
        yield Finding(
            code="NO_AVX2",
            severity="warning",
            message="The processor shows no AVX2: matrix kernels run several times slower"
            + (", and TensorFlow and jaxlib wheels, built for AVX, stop with SIGILL." if without_avx else "."),
            evidence="flags of /proc/cpuinfo",
            fix="use another machine, or a CPU model of the hypervisor that passes AVX2 through",
        )


FINDERS = (masked, amx, capped, old)
