"""Mistral and Mixtral."""

from __future__ import annotations

from advisor.model.families._decoder import decoder, experts, sizes
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.records import Model

MISTRAL = "Jiang et al. 2023, Mistral 7B, arXiv 2310.06825, table 1; released configuration"
MIXTRAL = "Jiang et al. 2024, Mixtral of Experts, arXiv 2401.04088, table 1; released configuration"


def mistral(c: Fields, name: str) -> Model:
    """``model_type: mistral``: the Llama shape, with a window where the configuration gives one."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False, window=c.optional("sliding_window"))
    return decoder(c, t, name, "mistral")


def mixtral(c: Fields, name: str) -> Model:
    """``model_type: mixtral``: every layer is a mixture of experts."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False, window=c.optional("sliding_window"), **experts(c, default=8, per_token=2))
    return decoder(c, t, name, "mistral")


def _config(layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, vocab: int, length: int) -> dict[str, int]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "max_position_embeddings": length,
    }


_7B = _config(32, 4096, 32, 8, 14336, 32000, 32768)
_MOE = {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None}

FAMILY = Family(
    name="mistral",
    title="Mistral and Mixtral",
    architectures={"mistral": mistral, "mixtral": mixtral},
    entries=(
        Entry(name="mistral-7b", config={"model_type": "mistral", **_7B, "sliding_window": 4096}, source=MISTRAL, aliases=("mistral",)),
        Entry(
            name="mistral-7b-v0.3",
            config={"model_type": "mistral", **_7B, "vocab_size": 32768, "sliding_window": None},
            source="released configuration of Mistral-7B-v0.3",
        ),
        Entry(
            name="mistral-nemo-12b",
            config={"model_type": "mistral", **_config(40, 5120, 32, 8, 14336, 131072, 131072), "head_dim": 128, "sliding_window": None},
            source="released configuration of Mistral-Nemo-Base-2407",
            aliases=("mistral-nemo-base-2407", "mistral-nemo-instruct-2407"),
        ),
        Entry(
            name="mistral-large-123b",
            config={"model_type": "mistral", **_config(88, 12288, 96, 8, 28672, 32768, 131072), "sliding_window": None},
            source="released configuration of Mistral-Large-Instruct-2407",
            aliases=("mistral-large", "mistral-large-instruct-2407"),
        ),
        Entry(name="mixtral-8x7b", config={**_7B, **_MOE}, source=MIXTRAL, aliases=("mixtral",)),
        Entry(
            name="mixtral-8x22b",
            config={**_config(56, 6144, 48, 8, 16384, 32768, 65536), **_MOE},
            source="released configuration of Mixtral-8x22B-v0.1",
        ),
    ),
)
