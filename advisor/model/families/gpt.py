"""GPT-2, GPT-3 and models of their shape (layernorm, biases, learned positions, tied tables)."""

from __future__ import annotations

from advisor.model.families._decoder import decoder, sizes
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.layout import LayerKind
from advisor.model.records import Model

GPT3 = "Brown et al. 2020, Language Models are Few-Shot Learners, table 2.1; vocabulary of GPT-2"
OPT = "Zhang et al. 2022, OPT, table 1 (the paper's shape with GPT-3's vocabulary and length)"
MEGATRON = "Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters, table 1"
GPT2 = "Radford et al. 2019, Language Models are Unsupervised Multitask Learners, table 2"


def gpt2(c: Fields, name: str) -> Model:
    """``model_type: gpt2``; the feed-forward width is 4 x hidden unless ``n_inner`` is given."""
    t = sizes(c, gated=False, norm="layernorm", tied=True, learned=True, max_seq=1024, ffn_default=4 * c.integer("hidden_size"))
    return decoder(c, t, name, "gpt")


def gpt_neo(c: Fields, name: str) -> Model:
    """``model_type: gpt_neo``: half of the layers see a window of 256 keys; no bias in q, k and v (GPT-Neo)."""
    t = sizes(c, gated=False, norm="layernorm", tied=True, learned=True, ffn_default=4 * c.integer("hidden_size"))
    window = c.integer("window_size", default=256)
    c.ignore("attention_layers", "attention_types", "attention_dropout", "embed_dropout")
    kinds: tuple[LayerKind, ...] = (
        LayerKind(name="global layer", repeat=t.layers - t.layers // 2),
        LayerKind(name="local layer", repeat=t.layers // 2, window=window),
    )
    kinds = tuple(kind for kind in kinds if kind.repeat)
    return decoder(c, t, name, "gpt", qkv_bias=False, kinds=kinds)


def _entry(size: str, layers: int, hidden: int, heads: int, source: str, *, vocab: int = 50257, aliases: tuple[str, ...] = ()) -> Entry:
    config = {
        "model_type": "gpt2",
        "n_layer": layers,
        "n_embd": hidden,
        "n_head": heads,
        "vocab_size": vocab,
        "n_positions": 2048,
    }
    return Entry(name=f"gpt-{size}", config=config, source=source, aliases=(f"gpt3-{size}", f"gpt-3-{size}", *aliases))


def _gpt2(name: str, layers: int, hidden: int, heads: int, *aliases: str) -> Entry:
    config = {"model_type": "gpt2", "n_layer": layers, "n_embd": hidden, "n_head": heads, "vocab_size": 50257, "n_positions": 1024}
    return Entry(name=name, config=config, source=GPT2, aliases=aliases)


FAMILY = Family(
    name="gpt",
    title="GPT-2 and GPT-3 shapes",
    architectures={"gpt2": gpt2, "gpt": gpt2, "gpt3": gpt2, "gpt_neo": gpt_neo},
    entries=(
        _entry("125m", 12, 768, 12, GPT3, aliases=("gpt3-small",)),
        _entry("350m", 24, 1024, 16, GPT3, aliases=("gpt3-medium", "gpt3-355m")),
        _entry("760m", 24, 1536, 16, GPT3, aliases=("gpt3-large",)),
        _entry("1.3b", 24, 2048, 16, GPT3 + "; 16 heads of 128, since the table's 24 do not divide 2048", aliases=("gpt3-xl", "gpt-1b3")),
        _entry("2.7b", 32, 2560, 32, GPT3),
        _entry("6.7b", 32, 4096, 32, GPT3),
        _entry("13b", 40, 5120, 40, GPT3 + "; hidden 5120 = 40 heads of 128, since the table's 5140 is not divisible"),
        _entry("30b", 48, 7168, 56, OPT),
        _entry("66b", 64, 9216, 72, OPT),
        _entry("175b", 96, 12288, 96, GPT3, aliases=("gpt3", "gpt-3")),
        _entry("1.7b", 24, 2304, 24, MEGATRON, vocab=51200),
        _entry("3.6b", 30, 3072, 32, MEGATRON, vocab=51200),
        _entry("7.5b", 36, 4096, 32, MEGATRON, vocab=51200),
        _entry("18b", 40, 6144, 48, MEGATRON, vocab=51200),
        _entry("39b", 48, 8192, 64, MEGATRON, vocab=51200),
        _entry("76b", 60, 10240, 80, MEGATRON, vocab=51200),
        _entry("145b", 80, 12288, 96, MEGATRON, vocab=51200),
        _entry("310b", 96, 16384, 128, MEGATRON, vocab=51200),
        _entry("530b", 105, 20480, 128, "Smith et al. 2022, Megatron-Turing NLG 530B, section 2.3", aliases=("mt-nlg-530b",)),
        _entry("1t", 128, 25600, 160, MEGATRON, aliases=("gpt-1000b",)),
        _gpt2("gpt2", 12, 768, 12, "gpt2-small", "gpt2-124m", "gpt2-117m"),
        _gpt2("gpt2-medium", 24, 1024, 16, "gpt2-355m", "gpt2-345m"),
        _gpt2("gpt2-large", 36, 1280, 20, "gpt2-774m"),
        _gpt2("gpt2-xl", 48, 1600, 25, "gpt2-1.5b", "gpt2-1558m"),
    ),
)
