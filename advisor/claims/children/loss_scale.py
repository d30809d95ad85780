"""Steps that a dynamic loss scaler skips from each initial scale, in one fp16 training run that is the same but for the scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.claims.children._answer import answer

STEPS = 60
GROWTH_INTERVAL = 2000
DEFAULT_SCALE = 65536.0


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return (1 + steps skipped from ``scale``) over (1 + steps skipped from 65536) for a quiet and for a steep loss."""
    scale = float(arguments.get("scale") or 8192)
    rows = []
    for label, gain in (("ordinary gradients", 1.0), ("steep gradients", 64.0)):
        ours, theirs = (_skipped(start, gain, int(arguments["seed"]), int(arguments["threads"])) for start in (scale, DEFAULT_SCALE))
        rows.append({"label": label, "value": (1 + ours) / (1 + theirs), "detail": {"skipped": ours, "skipped_from_65536": theirs}})
    return rows


def _skipped(initial: float, gain: float, seed: int, threads: int) -> int:
    """Return how many of the steps found a gradient that overflows fp16 after scaling by the current scale."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 10)).half()
    master = [p.detach().float().clone() for p in model.parameters()]
    x, y = torch.randn(64, 64).half(), torch.randint(0, 10, (64,))
    scale, since = initial, 0
    skipped = 0
    for _ in range(STEPS):
        model.zero_grad()
        loss = gain * torch.nn.functional.cross_entropy(model(x).float(), y)
        (loss * scale).backward()
        gradients = [p.grad.float() for p in model.parameters() if p.grad is not None]
        overflow = not all(bool(torch.isfinite(g).all()) for g in gradients)
        skipped += overflow
        with torch.no_grad():
            if not overflow:
                for weight, p, g in zip(master, model.parameters(), gradients, strict=True):
                    weight -= 0.05 / gain * g / scale
                    p.copy_(weight.half())
        # The rule of torch.amp.GradScaler: halve on an overflow, double after so many steps without one.
        since = 0 if overflow else since + 1
        scale = scale / 2 if overflow else scale * (2 if since and since % GROWTH_INTERVAL == 0 else 1)
    return skipped


if __name__ == "__main__":
    answer(measure)
