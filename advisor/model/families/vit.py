"""Vision transformers: ViT, DeiT, and CLIP with its text tower."""

from __future__ import annotations

from typing import Any

from advisor.model.blockbuilder import BlockBuilder
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.layout import LayerKind, Layout
from advisor.model.records import Block, Gemm, Model, Transformer
from advisor.model.transformer import assemble, embedding_block, layer_block

VIT = "Dosovitskiy et al. 2020, An Image is Worth 16x16 Words, arXiv 2010.11929, table 1"
DEIT = "Touvron et al. 2020, DeiT, arXiv 2012.12877, table 1"
CLIP = "Radford et al. 2021, CLIP, arXiv 2103.00020, table 20; released configuration"


def _tower(c: Fields, *, hidden: int, patches: int, extra: int) -> Transformer:
    heads = c.integer("num_attention_heads", default=12)
    if hidden % heads:
        raise c.fail(f"hidden size {hidden} is not divisible by {heads} attention heads")
    return Transformer(
        layers=c.layers(default=12),
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        ffn_hidden=c.integer("intermediate_size", default=4 * hidden),
        vocab=1,
        max_seq=patches + extra,
        causal=False,
        learned_positions=True,
    )


def _grid(c: Fields, *, image: int, patch: int) -> tuple[int, int, int]:
    """Return image size, patch size and the number of patches."""
    size = c.integer("image_size", default=image, high=1 << 20)
    side = c.integer("patch_size", default=patch, high=size)
    return size, side, (size // side) ** 2


def _patches(t: Transformer, *, patch: int, channels: int, patches: int, extra: int, bias: bool, norm: bool, tokens: int | None) -> Block:
    """Cut into patches (a product over each patch's pixels), class tokens, positions."""
    b = BlockBuilder(tokens)
    b.gemm("patches", t.hidden, channels * patch * patch, bias=bias, tokens=patches)
    b.weights((extra + patches + extra) * t.hidden)
    b.elementwise("positions", 2 * t.hidden, t.hidden)
    if norm:
        b.norm("embedding.norm", t.hidden, bias=True)
        b.keep(t.hidden)
    return b.build("embedding", "patch embedding", stack="encoder" if tokens else "main")


def _image_model(c: Fields, name: str, *, extra: int) -> Model:
    hidden = c.integer("hidden_size", default=768)
    size, patch, patches = _grid(c, image=224, patch=16)
    channels = c.integer("num_channels", default=3, high=1 << 16)
    t = _tower(c, hidden=hidden, patches=patches, extra=extra)
    layout = Layout(qkv_bias=c.flag("qkv_bias", default=True), dropout=False)
    labels = c.integer("num_labels", default=c.length("id2label") or 1000)
    c.ignore("encoder_stride", "pooler_output_size", "pooler_act")
    head = BlockBuilder()
    head.norm("final_norm", hidden, bias=True)
    head.keep(hidden)
    head.gemm("classes", labels, hidden, bias=True, tokens=1)
    blocks = [
        _patches(t, patch=patch, channels=channels, patches=patches, extra=extra, bias=True, norm=False, tokens=None),
        layer_block(t, layout, LayerKind(name="layer", repeat=t.layers)),
        head.build("head", "head"),
    ]
    return assemble(
        blocks,
        name=name,
        family="vit",
        kind="vision",
        transformer=t,
        default_seq=t.max_seq,
        sample="image",
        resolution=size,
    )


def vit(c: Fields, name: str) -> Model:
    """``model_type: vit``: with a classification head (1,000 classes unless the configuration says otherwise)."""
    return _image_model(c, name, extra=1)


def deit(c: Fields, name: str) -> Model:
    """``model_type: deit``: a distillation token beside the class token."""
    return _image_model(c, name, extra=2)


def clip(c: Fields, name: str) -> Model:
    """``model_type: clip``: a sample is one image and one text; the text tower is the main stack."""
    text, image = c.section("text_config") or Fields({}, c.what), c.section("vision_config") or Fields({}, c.what)
    shared = c.integer("projection_dim", default=512)
    for part in (text, image):
        part.ignore("projection_dim", "logit_scale_init_value", "max_length", "min_length")
    c.ignore("logit_scale_init_value", "text_config_dict", "vision_config_dict")
    text_hidden, image_hidden = text.integer("hidden_size", default=512), image.integer("hidden_size", default=768)
    size, patch, patches = _grid(image, image=224, patch=32)
    channels = image.integer("num_channels", default=3, high=1 << 16)
    seen = _tower(image, hidden=image_hidden, patches=patches, extra=1)
    heads = text.integer("num_attention_heads", default=8)
    if text_hidden % heads:
        raise text.fail(f"hidden size {text_hidden} is not divisible by {heads} attention heads")
    t = Transformer(
        layers=text.layers(default=12),
        hidden=text_hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=text_hidden // heads,
        ffn_hidden=text.integer("intermediate_size", default=4 * text_hidden),
        vocab=text.integer("vocab_size", default=49408),
        max_seq=text.integer("max_position_embeddings", default=77),
        learned_positions=True,
        encoder_layers=seen.layers,
    )
    layout = Layout(dropout=False)
    end = BlockBuilder()
    end.norm("final_norm", text_hidden, bias=True)
    end.gemm("project", shared, text_hidden, tokens=1)
    end.weights(1)  # the temperature of the contrastive loss
    end.operators.append(Gemm(name="similarity", n=1, k=shared, tokens_per_sample=1, has_weight=False))
    image_end = BlockBuilder(1)
    image_end.norm("final_norm", image_hidden, bias=True)
    image_end.gemm("project", shared, image_hidden)
    blocks = [
        _patches(seen, patch=patch, channels=channels, patches=patches, extra=1, bias=False, norm=True, tokens=patches + 1),
        layer_block(seen, layout, LayerKind(name="image layer", repeat=seen.layers), tokens=patches + 1, stack="encoder"),
        image_end.build("head", "image end", stack="encoder"),
        embedding_block(t, layout),
        layer_block(t, layout, LayerKind(name="text layer", repeat=t.layers)),
        end.build("head", "text end"),
    ]
    return assemble(blocks, name=name, family="vit", kind="vision", transformer=t, default_seq=t.max_seq, sample="image", resolution=size)


def _vit(name: str, kind: str, hidden: int, layers: int, heads: int, patch: int, source: str, *aliases: str, size: int = 224) -> Entry:
    config = {
        "model_type": kind,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "image_size": size,
        "patch_size": patch,
        "num_labels": 1000,
    }
    return Entry(name=name, config=config, source=source, aliases=aliases)


def _clip(name: str, text: tuple[int, int], image: tuple[int, int, int, int], shared: int, size: int, *aliases: str) -> Entry:
    hidden, layers, heads, patch = image
    config: dict[str, Any] = {
        "model_type": "clip",
        "projection_dim": shared,
        "text_config": {
            "hidden_size": text[0],
            "num_hidden_layers": 12,
            "num_attention_heads": text[1],
            "intermediate_size": 4 * text[0],
            "vocab_size": 49408,
            "max_position_embeddings": 77,
            "projection_dim": shared,
        },
        "vision_config": {
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": 4 * hidden,
            "patch_size": patch,
            "image_size": size,
            "projection_dim": shared,
        },
    }
    return Entry(name=name, config=config, source=CLIP, aliases=aliases)


FAMILY = Family(
    name="vit",
    title="ViT, DeiT and CLIP",
    architectures={"vit": vit, "deit": deit, "clip": clip},
    entries=(
        _vit("vit-b-16", "vit", 768, 12, 12, 16, VIT, "vit-base", "vit-b", "vit-base-patch16-224", "vit_base_patch16_224", "vit"),
        _vit("vit-b-32", "vit", 768, 12, 12, 32, VIT, "vit-base-patch32-224"),
        _vit("vit-l-16", "vit", 1024, 24, 16, 16, VIT, "vit-large", "vit-l", "vit-large-patch16-224"),
        _vit("vit-h-14", "vit", 1280, 32, 16, 14, VIT, "vit-huge", "vit-h", "vit-huge-patch14-224"),
        _vit("deit-tiny", "deit", 192, 12, 3, 16, DEIT, "deit-tiny-distilled-patch16-224"),
        _vit("deit-small", "deit", 384, 12, 6, 16, DEIT, "deit-small-distilled-patch16-224"),
        _vit("deit-base", "deit", 768, 12, 12, 16, DEIT, "deit-base-distilled-patch16-224"),
        _clip("clip-vit-b-32", (512, 8), (768, 12, 12, 32), 512, 224, "clip-vit-base-patch32", "clip"),
        _clip("clip-vit-b-16", (512, 8), (768, 12, 12, 16), 512, 224, "clip-vit-base-patch16"),
        _clip("clip-vit-l-14", (768, 12), (1024, 24, 16, 14), 768, 224, "clip-vit-large-patch14"),
    ),
)
