"""Share of a fixed list of PyTorch operators that run on a device and give what the CPU gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.claims.children._answer import Lacks, answer


def calls(torch: Any, x: Any) -> dict[str, Any]:
    """Return for each operator a call on ``x``, a square matrix with positive entries on its device.

    The list is what networks of the shipped families use, and their training.
    """
    f, y, i = torch.nn.functional, x.flip(0) + 0.5, torch.arange(4, device=x.device)
    definite = x @ x.T + 10 * torch.eye(len(x), device=x.device)
    image, line, volume = x[None, None], x[None, :1], x.view(1, 1, 4, 4, -1)
    w = torch.full((1, 1, 3, 3), 0.1, device=x.device)
    heads = x.view(1, 2, -1, 16)
    binary = {n: (lambda n=n: getattr(torch, n)(x, y)) for n in ("mm", "matmul", "add", "sub", "mul", "div", "maximum", "minimum", "atan2")}
    unary = {
        n: (lambda n=n: getattr(torch, n)(x))
        for n in ("exp", "log1p", "sqrt", "rsqrt", "abs", "neg", "sigmoid", "tanh", "erf", "sin", "cos", "floor", "round", "argmax", "sum",
                  "mean", "var", "amax", "norm", "tril", "triu")
    }  # fmt: skip
    return {
        **binary,
        **unary,
        "outer_product": lambda: torch.outer(x[0], y[0]),
        "where_positive": lambda: torch.where(x > 1, x, y),
        "cat": lambda: torch.cat((x, y)),
        "stack": lambda: torch.stack((x, y)),
        "cumsum": lambda: torch.cumsum(x, 0),
        "sort": lambda: torch.sort(x)[0],
        "topk": lambda: torch.topk(x, 3)[0],
        "softmax": lambda: torch.softmax(x, -1),
        "log_softmax": lambda: torch.log_softmax(x, -1),
        "flip": lambda: torch.flip(x, (0,)),
        "roll": lambda: torch.roll(x, 2, 0),
        "permute": lambda: torch.permute(x, (1, 0)).contiguous(),
        "gather": lambda: torch.gather(x, 0, i[None]),
        "index_select": lambda: torch.index_select(x, 0, i),
        "masked_fill": lambda: torch.masked_fill(x, x > 1, 0.0),
        "fft": lambda: torch.fft.rfft(x).abs(),
        "svd": lambda: torch.linalg.svdvals(x),
        "inverse": lambda: torch.linalg.inv(definite),
        "cholesky": lambda: torch.linalg.cholesky(definite),
        "qr": lambda: torch.linalg.qr(x)[1].abs(),
        "relu": lambda: f.relu(x - 1),
        "gelu": lambda: f.gelu(x),
        "silu": lambda: f.silu(x),
        "softplus": lambda: f.softplus(x),
        "layer_norm": lambda: f.layer_norm(x, x.shape[-1:]),
        "group_norm": lambda: f.group_norm(x[None], 4),
        "batch_norm": lambda: f.batch_norm(x, None, None, training=True),
        "rms_norm": lambda: f.rms_norm(x, x.shape[-1:]),
        "dropout_off": lambda: f.dropout(x, 0.5, training=False),
        "embedding": lambda: f.embedding(i, x),
        "conv1d": lambda: f.conv1d(line, w[0, :, :1].expand(1, 1, 3)),
        "conv2d": lambda: f.conv2d(image, w),
        "conv3d": lambda: f.conv3d(volume, w[None].expand(1, 1, 3, 3, 3)),
        "conv_transpose2d": lambda: f.conv_transpose2d(image, w),
        "max_pool2d": lambda: f.max_pool2d(image, 2),
        "avg_pool2d": lambda: f.avg_pool2d(image, 2),
        "interpolate": lambda: f.interpolate(image, scale_factor=2, mode="bilinear"),
        "pad": lambda: f.pad(image, (1, 1, 1, 1), mode="reflect"),
        "cross_entropy": lambda: f.cross_entropy(x[:4], i),
        "mse_loss": lambda: f.mse_loss(x, y),
        "scaled_dot_product_attention": lambda: f.scaled_dot_product_attention(heads, heads, heads),
        "grid_sample": lambda: f.grid_sample(image, torch.zeros(1, 4, 4, 2, device=x.device), align_corners=False),
    }


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the share for ``device`` (default ``cuda``); Lacks says that there is none."""
    import torch

    device = str(arguments.get("device") or "cuda")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise Lacks("there is no CUDA device that PyTorch can use")
    torch.manual_seed(int(arguments["seed"]))
    x = torch.rand(32, 32) + 0.1
    ours, theirs = calls(torch, x.to(device)), calls(torch, x)
    failed = {name: reason for name in ours if (reason := _trouble(torch, ours[name], theirs[name])) is not None}
    return [{"label": f"{len(ours)} operators on {device}", "value": 1 - len(failed) / len(ours), "detail": {"failed": failed}}]


def _trouble(torch: Any, ours: Any, theirs: Any) -> str | None:
    """Return why an operator does not count, or None."""
    try:
        got = ours().cpu()
    except (RuntimeError, NotImplementedError) as error:
        return str(error).splitlines()[0][:200]
    return None if torch.allclose(got, theirs(), rtol=1e-2, atol=1e-3) else "another result than on the CPU"


if __name__ == "__main__":
    answer(measure)
