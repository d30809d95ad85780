"""What claims name: networks as the measuring child describes them, and variations of its backends."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

VARIANT = "variant:"


def _encoder(layers: int, hidden: int, heads: int) -> dict[str, Any]:
    return {
        "kind": "encoder",
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "ffn_hidden": 4 * hidden,
        "vocab": 30522,
        "max_seq": 512,
    }


#: BERT's sizes after Devlin et al. 2019 (base) and Turc et al. 2019 (tiny, small), ResNets after He et al. 2015 (table 1); the small GPT is
#: what a CPU can train in a test.
NETWORKS: dict[str, dict[str, Any]] = {
    "bert-base": _encoder(12, 768, 12),
    # Four of twelve heads and 864 of 3072 inner channels: 30 % of the parameters of each layer are left.
    "bert-base-cut-70": {**_encoder(12, 768, 4), "head_dim": 64, "ffn_hidden": 864},
    "bert-small": _encoder(4, 512, 8),
    "bert-tiny": _encoder(2, 128, 2),
    "resnet-50": {"kind": "resnet", "blocks": [3, 4, 6, 3], "width": 64, "classes": 1000},
    "resnet-152": {"kind": "resnet", "blocks": [3, 8, 36, 3], "width": 64, "classes": 1000},
    "resnet-26-half": {"kind": "resnet", "blocks": [2, 2, 2, 2], "width": 32, "classes": 1000},
    "gpt-mini": {"kind": "decoder", "layers": 4, "hidden": 256, "heads": 4, "ffn_hidden": 1024, "vocab": 2048, "max_seq": 256},
    "gpt-small": {"kind": "decoder", "layers": 6, "hidden": 384, "heads": 6, "ffn_hidden": 1536, "vocab": 4096, "max_seq": 512},
}


def backend_of(name: str) -> str:
    """Return a backend as the measuring child takes it: ``variant:NAME`` is the file of that name in ``microbench/variants``."""
    if not name.startswith(VARIANT):
        return name
    spec = importlib.util.find_spec("microbench")
    folder = Path(next(iter(spec.submodule_search_locations or ()))) if spec is not None else Path()
    return str(folder / "variants" / f"{name.removeprefix(VARIANT)}.py")
