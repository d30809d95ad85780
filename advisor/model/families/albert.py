"""ALBERT: one layer's weights used by all layers."""

from __future__ import annotations

from dataclasses import replace

from advisor.model.blockbuilder import BlockBuilder
from advisor.model.families._decoder import sizes
from advisor.model.families._entry import row
from advisor.model.family import Family
from advisor.model.fields import Fields
from advisor.model.layout import LayerKind, Layout
from advisor.model.records import Model
from advisor.model.transformer import assemble, embedding_block, layer_block

ALBERT = "Lan et al. 2019, ALBERT, arXiv 1909.11942, table 1; released configuration"


def albert(c: Fields, name: str) -> Model:
    """``model_type: albert``: the encoder with its pooler; the token table is narrower than the layers."""
    t = sizes(c, gated=False, norm="layernorm", tied=True, learned=True, causal=False, max_seq=512)
    groups = c.integer("num_hidden_groups", default=1, high=t.layers)
    inner = c.integer("inner_group_num", default=1, high=1000)
    c.ignore("down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks", "inner_group_num")
    width = c.integer("embedding_size", default=128)
    layout = Layout(
        embedding_norm=True,
        token_types=c.integer("type_vocab_size", default=2),
        embedding_size=None if width == t.hidden else width,
        final_norm=False,
    )
    layer = layer_block(t, layout, LayerKind(name="layer", repeat=groups * inner))
    again = t.layers * inner - groups * inner
    head = BlockBuilder()
    head.gemm("pooler", t.hidden, t.hidden, bias=True, tokens=1)
    blocks = [embedding_block(t, layout), layer]
    if again > 0:
        # The same weights once more: work and activations, but no parameters.
        blocks.append(replace(layer, name="layer (shared weights)", repeat=again, parameters=0, unsplit_parameters=0))
    blocks.append(head.build("head", "head"))
    return assemble(blocks, name=name, family="bert", kind="encoder", transformer=t, default_seq=t.max_seq)


FAMILY = Family(
    name="albert",
    title="ALBERT",
    architectures={"albert": albert},
    entries=(
        row("albert-base", "albert", ALBERT, (12, 768, 12, 3072, 30000, 512), "albert-base-v2", "albert", embedding_size=128),
        row("albert-large", "albert", ALBERT, (24, 1024, 16, 4096, 30000, 512), "albert-large-v2", embedding_size=128),
        row("albert-xxlarge", "albert", ALBERT, (12, 4096, 64, 16384, 30000, 512), "albert-xxlarge-v2", embedding_size=128),
    ),
)
