"""Accuracy lost where structured pruning leaves 30 % of a network's parameters, on scikit-learn's digits.

A perceptron is trained; the neurons with the smallest product of the norms of their weights in and out are taken away, in both hidden
layers alike, until the share of parameters is left, and the rest is trained on for a few passes, as those who prune do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.claims.children._answer import answer
from advisor.claims.children.real_int8 import loss

WIDTH, EPOCHS, FINE = 256, 20, 8


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the share of held-out samples that the cut network loses, ``left`` of its parameters left."""
    import torch
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from torch import nn

    seed, left = int(arguments["seed"]) % 2**31, float(arguments.get("left") or 0.3)
    torch.manual_seed(seed)
    torch.set_num_threads(int(arguments["threads"]))
    images, labels = load_digits(return_X_y=True)
    split = train_test_split((images / 16).astype("float32"), labels, test_size=0.5, random_state=seed, stratify=labels)
    x, test_x, y, test_y = (torch.from_numpy(part) for part in split)
    whole = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
    _train(torch, whole, x, y, EPOCHS)
    width = max(w for w in range(1, WIDTH + 1) if parameters(w) <= left * parameters(WIDTH))
    cut = _cut(torch, whole, width)
    before = _right(torch, cut, test_x, test_y)
    _train(torch, cut, x, y, FINE)
    row = loss(
        f"digits, {parameters(width) / parameters(WIDTH):.0%} of the parameters", *(_right(torch, m, test_x, test_y) for m in (whole, cut))
    )
    row["detail"] |= {"width": width, "before_training_on": float(before.mean())}
    return [row]


def parameters(width: int) -> int:
    """Return the parameters of the perceptron with two hidden layers of ``width``."""
    return 64 * width + width + width * width + width + width * 10 + 10


def _train(torch: Any, model: Any, x: Any, y: Any, epochs: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()


def _right(torch: Any, model: Any, x: Any, y: Any) -> Any:
    with torch.no_grad():
        return (model(x).argmax(1) == y).numpy()


def _cut(torch: Any, whole: Any, width: int) -> Any:
    """Return the network of the ``width`` neurons of each hidden layer that matter most."""
    nn = torch.nn
    first, second, last = (layer for layer in whole if isinstance(layer, nn.Linear))
    keep = [
        (layer.weight.norm(dim=1) * following.weight.norm(dim=0)).topk(width).indices.sort().values
        for layer, following in ((first, second), (second, last))
    ]
    cut = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    with torch.no_grad():
        cut[0].weight.copy_(first.weight[keep[0]])
        cut[0].bias.copy_(first.bias[keep[0]])
        cut[2].weight.copy_(second.weight[keep[1]][:, keep[0]])
        cut[2].bias.copy_(second.bias[keep[1]])
        cut[4].weight.copy_(last.weight[:, keep[1]])
        cut[4].bias.copy_(last.bias)
    return cut


if __name__ == "__main__":
    answer(measure)
