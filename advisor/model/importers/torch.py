"""A torch module from ``file.py:function``, captured on the meta device in a child process: no weights, no arithmetic.

The function takes no arguments and returns the module. The file may define ``example_inputs()`` returning the inputs of one sample
(a tensor, a tuple or a dict); without it token ids of length 128, then an image of 3 x 224 x 224 are tried.
"""

from __future__ import annotations

from advisor.errors import UsageError
from advisor.model.importers.captured import capture, to_model
from advisor.model.records import Model
from advisor.resources import user_path

_MEMORY_LIMIT = 16 << 30


def read_torch(path: str) -> Model:
    """Return the Model of a torch module; runs the user's file in a child with a deadline."""
    file, _, function = path.partition(".py:")
    source = user_path(f"{file}.py" if function or path.endswith(":") else path.rstrip(":"))
    function = function or "build_model"
    if not function.isidentifier():
        raise UsageError(f"{function!r} is not the name of a function", "write FILE.py:FUNCTION", code="CANNOT-READ")
    try:
        readable = source.is_file()
    except (OSError, ValueError):
        readable = False
    if not readable:
        raise UsageError(f"cannot read {source}: no such file", code="CANNOT-READ")
    document = capture(
        "advisor.model.importers._torch_child",
        str(source.resolve()),
        function,
        what=f"{source}:{function}",
        extra="torch",
        memory_limit_bytes=_MEMORY_LIMIT,
    )
    return to_model(document, what=f"{source}:{function}")
