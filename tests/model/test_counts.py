"""Counts against closed formulas, and laws they obey."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import UsageError
from advisor.model import counts
from advisor.model.records import Attention
from advisor.model.registry import model
from advisor.model.shapes import transformer_from_shape


def test_gpt_13b_is_exact() -> None:
    found = model("gpt-13b")
    layers, h, v, s = 40, 5120, 50257, 2048
    assert found.parameters == 12_853_386_240 == layers * (12 * h * h + 13 * h) + v * h + s * h + 2 * h
    assert counts.forward_flops(found) == 2 * (12 * layers * h * h + v * h) * s + 4 * layers * h * s * s
    causal = 2 * (12 * layers * h * h + v * h) * s + 4 * layers * h * (s * (s + 1) // 2)
    assert counts.forward_flops(found, causal=True) == causal
    assert counts.kv_bytes_per_token(found) == 2 * layers * h * 2
    assert counts.forward_flops(found, batch=7) == 7 * counts.forward_flops(found)


@given(
    layers=st.integers(1, 200),
    heads=st.integers(1, 160),
    head_dim=st.sampled_from([16, 64, 80, 128]),
    vocab=st.integers(1, 300_000),
    seq=st.integers(1, 100_000),
)
def test_gpt_shape_formula(layers: int, heads: int, head_dim: int, vocab: int, seq: int) -> None:
    h = heads * head_dim
    found = transformer_from_shape(layers, h, heads, vocab=vocab, max_seq=seq)
    assert found.parameters == layers * (12 * h * h + 13 * h) + vocab * h + seq * h + 2 * h
    assert counts.forward_flops(found) == 2 * (12 * layers * h * h + vocab * h) * seq + 4 * layers * h * seq * seq


@given(layers=st.integers(1, 100), kv=st.sampled_from([1, 2, 4, 8]), group=st.integers(1, 16), ffn=st.integers(1, 60_000))
def test_llama_shape_formula(layers: int, kv: int, group: int, ffn: int) -> None:
    heads, vocab = kv * group, 32000
    h, h_kv = heads * 128, kv * 128
    found = transformer_from_shape(layers, h, heads, kv, ffn, vocab, 4096, gated_mlp=True, tied_embeddings=False)
    assert found.parameters == layers * (2 * h * h + 2 * h * h_kv + 3 * h * ffn + 2 * h) + 2 * vocab * h + h
    assert counts.kv_bytes_per_token(found) == 2 * layers * h_kv * 2


@pytest.mark.parametrize(
    ("shape", "published"),
    [
        ({"layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8, "ffn_hidden": 28672, "vocab": 32000, "max_seq": 4096}, 68_976_648_192),
        ({"layers": 80, "hidden": 8192, "heads": 64, "ffn_hidden": 32768, "vocab": 50368, "max_seq": 2048}, 64_862_437_376),
        ({"layers": 28, "hidden": 3584, "heads": 28, "kv_heads": 4, "ffn_hidden": 18944, "vocab": 152064}, 7.6e9),
        # A gated MLP of the usual 4 h: only the published count tells it from the GPT shape.
        ({"layers": 16, "hidden": 2048, "heads": 32, "kv_heads": 8, "ffn_hidden": 8192, "vocab": 128256}, 1_235_814_400),
    ],
)
def test_rows_of_tables_are_read_as_published(shape: dict[str, int], published: float) -> None:
    found = transformer_from_shape(**shape, parameters=published)
    assert found.parameters == pytest.approx(published, rel=0.003)


@pytest.mark.parametrize(
    "wrong",
    [
        {"layers": 0, "hidden": 64, "heads": 4},
        {"layers": 2, "hidden": -64, "heads": 4},
        {"layers": 2, "hidden": 65, "heads": 4},
        {"layers": 2, "hidden": 64, "heads": 4, "kv_heads": 3},
        {"layers": 2, "hidden": 64, "heads": 0},
    ],
)
def test_impossible_sizes_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        transformer_from_shape(**wrong)


@given(queries=st.integers(1, 60), extra=st.integers(0, 40), window=st.none() | st.integers(1, 80))
def test_causal_pairs_equal_brute_force(queries: int, extra: int, window: int | None) -> None:
    keys = queries + extra
    op = Attention(heads=1, kv_heads=1, head_dim=1, value_dim=1, causal=True, window=window)
    positions = range(keys - queries, keys)
    expected = sum(min(p + 1, window or keys) for p in positions)
    assert counts.score_pairs(op, queries, keys, causal=True) == expected
    assert counts.score_pairs(op, queries, keys, causal=False) == queries * keys


def test_latent_attention_keeps_the_latent_alone() -> None:
    """DeepSeek-V3 keeps 512 + 64 elements a layer and token (arXiv 2412.19437, section 2.1.1)."""
    assert counts.kv_bytes_per_token(model("deepseek-v3")) == 61 * (512 + 64) * 2


@pytest.mark.parametrize(
    ("name", "mebibytes"), [("llama-2-13b", 0.78125), ("qwen1.5-7b", 0.5), ("llama-3-8b", 0.125), ("mistral-7b", 0.125)]
)
def test_cache_of_well_known_models(name: str, mebibytes: float) -> None:
    """2 x layers x key-value heads x head width x 2 bytes."""
    assert counts.kv_bytes_per_token(model(name)) == mebibytes * 2**20


def test_encoders_keep_no_cache() -> None:
    for name in ("bert-base", "vit-b-16", "resnet-50", "mamba-130m"):
        assert counts.kv_bytes_per_token(model(name)) == 0


@given(s=st.sampled_from([512, 1024, 2048]), a=st.sampled_from([16, 40, 96]))
def test_kept_activations_follow_korthikanti(s: int, a: int) -> None:
    """34 s b h + 5 a s^2 b bytes a layer at 16 bits (Korthikanti et al. 2022, equation 1), 10 and 24 of the 34 unsplit and split."""
    h = 128 * a
    block = next(b for b in transformer_from_shape(2, h, a, max_seq=s).blocks if b.section == "layer")
    kept = 2 * block.activation_elements_per_token + block.activation_mask_bytes_per_token
    assert kept == 34 * h
    assert 2 * block.activation_elements_split_per_token == 24 * h
    scores = counts.score_elements_per_token(block, s)
    assert (2 + 1 + 2) * scores == 5 * a * s


def test_tensor_parallel_parts_add_up() -> None:
    """Of a GPT layer every rank holds whole: two norms (4h) and the biases behind the two row products (2h)."""
    block = next(b for b in model("gpt-13b").blocks if b.section == "layer")
    assert block.unsplit_parameters == 6 * 5120
