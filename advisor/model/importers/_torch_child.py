"""Child of the torch importer: builds the module on the meta device and records every product, convolution and attention."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from advisor.model.importers.captured import MARK

_SEQUENCE = 128
_IMAGE = 224
_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}


class Record(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down each operator below autograd; attention is written down whole by ``WholeAttention``."""

    def __init__(self, weights: dict[Any, str], tokens: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.weights = weights
        self.tokens = tokens
        self.operators: list[dict[str, Any]] = []
        self.kept = 0
        self.quiet = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not self.quiet:
            self._note(func.overloadpacket.__name__, args, out)
        return out

    def _note(self, name: str, args: Any, out: Any) -> None:
        if name in _PRODUCTS:
            left, right = args[-2:] if name in ("mm", "bmm") else args[1:3]
            self._product(left, right)
        elif name == "convolution":
            self._convolution(args, out)
        elif isinstance(out, torch.Tensor) and not _is_view(name):
            reads = sum(arg.numel() for arg in args if isinstance(arg, torch.Tensor))
            self.operators.append(
                {"kind": "elementwise", "name": name.strip("_"), "reads": reads, "writes": out.numel(), "tokens": self.tokens}
            )
        else:
            return
        if isinstance(out, torch.Tensor):
            self.kept += out.numel()

    def _product(self, left: torch.Tensor, right: torch.Tensor) -> None:
        name = self.weights.get(_storage(right)) or self.weights.get(_storage(left))
        shape = {"k": left.shape[-1], "n": right.shape[-1], "rows": left.shape[-2]}
        count = left.shape[0] if left.dim() == 3 else 1
        self.operators.append({"kind": "gemm", "name": name or "product", "has_weight": name is not None, "count": count, **shape})

    def _convolution(self, args: Any, out: torch.Tensor) -> None:
        x, weight, bias, stride, *_ = args
        transposed, groups = bool(args[6]), int(args[8])
        spatial = list(weight.shape[2:])
        place = x if transposed else out
        sizes = [*place.shape[2:], 1, 1]
        channels = (weight.shape[0], weight.shape[1] * groups) if transposed else (weight.shape[1] * groups, weight.shape[0])
        depth = 1
        if len(spatial) == 3:
            # Three dimensions: the third is counted as so many convolutions of two.
            depth, spatial, sizes = spatial[0] * sizes[0], spatial[1:], sizes[1:]
        kernel = [*spatial, 1]
        self.operators.append(
            {
                "kind": "conv",
                "name": self.weights.get(_storage(weight), "conv"),
                "in_channels": channels[0],
                "out_channels": channels[1],
                "kernel": kernel[0],
                "kernel_w": kernel[1],
                "stride": int(stride[0]),
                "groups": groups,
                "out_h": sizes[0],
                "out_w": sizes[1],
                "bias": bias is not None,
                "count": depth,
            }
        )


class WholeAttention(TorchFunctionMode):
    """Writes down scaled_dot_product_attention as one operator, whichever kernel it becomes."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is not torch.nn.functional.scaled_dot_product_attention or self.record.quiet:
            return func(*args, **kwargs)
        q, k, v = (kwargs.get(name, args[place] if place < len(args) else None) for place, name in enumerate(("query", "key", "value")))
        self.record.quiet = True
        try:
            out = func(*args, **kwargs)
        finally:
            self.record.quiet = False
        if q is not None and k is not None and v is not None and q.dim() >= 3:
            heads = q.shape[-3] if q.dim() >= 4 else 1
            self.record.operators.append(
                {
                    "kind": "attention",
                    "heads": heads,
                    "kv_heads": k.shape[-3] if k.dim() >= 4 else 1,
                    "head_dim": q.shape[-1],
                    "value_dim": v.shape[-1],
                    "queries": q.shape[-2],
                    "keys": k.shape[-2],
                    "causal": bool(kwargs.get("is_causal", args[5] if len(args) > 5 else False)),
                }
            )
            self.record.kept += out.numel()
        return out


def _is_view(name: str) -> bool:
    return name in _VIEWS or name.startswith(("sym_", "is_", "empty", "new_empty"))


_VIEW_NAMES = """view _unsafe_view reshape permute transpose t expand slice select unsqueeze squeeze detach alias as_strided split
    split_with_sizes unbind chunk unfold_view lift_fresh arange zeros ones full zeros_like ones_like full_like scalar_tensor"""
_VIEWS = frozenset(_VIEW_NAMES.split())


def _storage(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage()._cdata


def _load(path: str) -> Any:
    sys.path.insert(0, str(Path(path).parent))
    spec = importlib.util.spec_from_file_location("user_model", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["user_model"] = module
    spec.loader.exec_module(module)
    return module


def _candidates(module: Any) -> list[tuple[str, Any]]:
    """Return (description, inputs) to try, the file's own first."""
    given = getattr(module, "example_inputs", None)
    if given is not None:
        return [("example_inputs()", given() if callable(given) else given)]
    return [
        (f"token ids of length {_SEQUENCE}", torch.zeros(1, _SEQUENCE, dtype=torch.long)),
        (f"an image of 3 x {_IMAGE} x {_IMAGE}", torch.zeros(1, 3, _IMAGE, _IMAGE)),
    ]


def _call(model: Any, inputs: Any) -> None:
    if isinstance(inputs, dict):
        model(**{key: _meta(value) for key, value in inputs.items()})
    elif isinstance(inputs, tuple | list):
        model(*(_meta(value) for value in inputs))
    else:
        model(_meta(inputs))


def _meta(value: Any) -> Any:
    return value.to("meta") if isinstance(value, torch.Tensor) else value


def _first(inputs: Any) -> torch.Tensor | None:
    values = list(inputs.values()) if isinstance(inputs, dict) else list(inputs) if isinstance(inputs, tuple | list) else [inputs]
    return next((value for value in values if isinstance(value, torch.Tensor)), None)


def describe(path: str, function: str) -> dict[str, Any]:
    """Build and record; a document with ``error`` where the user's file is not as expected."""
    module = _load(path)
    build = getattr(module, function, None)
    if build is None:
        listed = ", ".join(name for name in vars(module) if callable(getattr(module, name)) and not name.startswith("_"))
        return {"error": f"it defines no {function}()", "hint": f"it defines {listed}" if listed else None}
    with torch.device("meta"):
        model = build() if callable(build) else build
        candidates = _candidates(module)
    if not isinstance(model, torch.nn.Module):
        return {"error": f"{function}() returned {type(model).__name__}, not a torch.nn.Module"}
    model = model.to("meta").eval()
    names = {_storage(parameter): name for name, parameter in model.named_parameters()}
    failures: list[str] = []
    for text, inputs in candidates:
        first = _first(inputs)
        sequence, image, tokens = _sizes(first)
        record = Record(names, tokens)
        try:
            with torch.no_grad(), torch.device("meta"), record, WholeAttention(record):
                _call(model, inputs)
        except Exception as error:  # noqa: BLE001 - foreign code; its own message is the answer
            failures.append(f"with {text}: {type(error).__name__}: {error}")
            continue
        return {
            "name": type(model).__name__,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "inputs": text,
            "sequence": sequence,
            "image": image,
            "tokens": tokens,
            "kept_elements": record.kept,
            "operators": record.operators,
            "notes": [],
        }
    return {"error": "its forward pass failed " + "; ".join(failures), "hint": "define example_inputs() in the file"}


def _sizes(first: torch.Tensor | None) -> tuple[int | None, int | None, int]:
    """Return the sequence length, the pixels of an image, and the tokens of one sample."""
    if first is None or first.dim() < 2:
        return None, None, 1
    if first.dim() >= 4:
        return None, int(first.shape[-1]), 1
    return int(first.shape[1]), None, int(first.shape[1])


def main() -> None:
    """Print the document of ``FILE FUNCTION``."""
    try:
        document = describe(sys.argv[1], sys.argv[2])
    except Exception as error:  # noqa: BLE001 - whatever the user's file raises becomes one line
        document = {"error": f"{type(error).__name__}: {error}"}
    except SystemExit as error:
        document = {"error": f"the file left with exit status {error.code}"}
    print(MARK + json.dumps(document), flush=True)


if __name__ == "__main__":
    main()
