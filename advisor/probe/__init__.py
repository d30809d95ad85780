"""probe: what is in a machine, what can be used, and how to mend the rest.

The package can be called: ``from advisor import probe; probe()`` is ``advisor.api.probe``. Python binds a package's name in its
parent when it is imported, which would otherwise hide the function of that name.
"""

from __future__ import annotations

import sys
import types
from typing import Any


class _CallablePackage(types.ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from advisor.api import probe

        return probe(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
