"""Whether the kernel grants AMX tile data to a process: asked in a child, since a permission once given cannot be given back."""

from __future__ import annotations

import sys

from advisor.probe.root import Root
from microbench.child import run_child

# arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA): Linux Documentation/arch/x86/xstate.rst. 158 is arch_prctl on x86-64.
_ASK = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
result = libc.syscall(158, 0x1023, 18)
print("ok" if result == 0 else errno.errorcode.get(ctypes.get_errno(), "unknown"))
"""

_REASONS = {
    "EINVAL": "the kernel does not know the request (Linux before 5.16)",
    "EOPNOTSUPP": "the kernel or hypervisor does not enable AMX tile data",
    "EPERM": "a sandbox or seccomp filter refuses it",
    "ENOSYS": "a sandbox does not implement the request",
}


def permission(root: Root) -> tuple[bool | None, str | None]:
    """Return (granted, why not). (None, reason) on a recorded machine, where nothing can be asked."""
    if not root.is_live:
        return None, "not asked: this is a recorded machine"
    answer = run_child([sys.executable, "-S", "-E", "-c", _ASK], timeout_s=5)
    word = answer.stdout.strip()
    if answer.status == "ok" and word == "ok":
        return True, None
    if answer.status == "ok":
        return False, _REASONS.get(word, f"refused with {word}")
    return None, answer.reason
