"""Phi 1, 1.5, 2, 3 and 4."""

from __future__ import annotations

from advisor.model.families._decoder import decoder, has_head, sizes
from advisor.model.families._entry import row
from advisor.model.family import Family
from advisor.model.fields import Fields
from advisor.model.records import Model

PHI = "Li et al. 2023, Phi-1.5, arXiv 2309.05463, and Microsoft 2023, Phi-2; released configuration"
PHI3 = "Abdin et al. 2024, Phi-3, arXiv 2404.14219; released configuration"
PHI4 = "Abdin et al. 2024, Phi-4, arXiv 2412.08905; released configuration"


def phi(c: Fields, name: str) -> Model:
    """``model_type: phi``: one norm for attention and MLP, biases everywhere, a bias in the head."""
    t = sizes(c, gated=False, norm="layernorm", tied=False, max_seq=2048)
    c.ignore("qk_layernorm")
    return decoder(c, t, name, "phi", layer_norms=1, lm_head_bias=has_head(c))


def phi3(c: Fields, name: str) -> Model:
    """``model_type: phi3``: the Llama shape."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False, window=c.optional("sliding_window"))
    c.ignore("attention_bias")
    return decoder(c, t, name, "phi")


FAMILY = Family(
    name="phi",
    title="Phi",
    architectures={"phi": phi, "phi3": phi3},
    entries=(
        row("phi-1.5", "phi", PHI, (24, 2048, 32, 8192, 51200, 2048), "microsoft/phi-1_5", "phi-1"),
        row("phi-2", "phi", PHI, (32, 2560, 32, 10240, 51200, 2048)),
        row("phi-3-mini", "phi3", PHI3, (32, 3072, 32, 8192, 32064, 4096), "phi-3-mini-4k-instruct", "phi-3", sliding_window=2047),
        row("phi-3-medium", "phi3", PHI3, (40, 5120, 40, 17920, 32064, 4096), "phi-3-medium-4k-instruct", num_key_value_heads=10),
        row("phi-4", "phi3", PHI4, (40, 5120, 40, 17920, 100352, 16384), num_key_value_heads=10),
    ),
)
