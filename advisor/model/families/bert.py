"""BERT, RoBERTa, DistilBERT and ELECTRA: encoders with learned positions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from advisor.model.families._decoder import sizes
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.layout import Layout
from advisor.model.records import Model, Transformer
from advisor.model.transformer import build_transformer

BERT = "Devlin et al. 2018, BERT, arXiv 1810.04805, section 3; the small ones: Turc et al. 2019, arXiv 1908.08962"
ROBERTA = "Liu et al. 2019, RoBERTa, arXiv 1907.11692; released configuration"
DISTIL = "Sanh et al. 2019, DistilBERT, arXiv 1910.01108; released configuration"
ELECTRA = "Clark et al. 2020, ELECTRA, arXiv 2003.10555, table 6 (the discriminator)"


def _labels(c: Fields) -> int:
    """Return the number of classes of a classification head (2 unless the configuration says otherwise)."""
    listed = c.length("id2label")
    return c.integer("num_labels", default=listed if listed else 2)


def _head(c: Fields, t: Transformer, *, pooler: bool) -> dict[str, Any]:
    """Choose the head from ``architectures``: masked words, classes, answers; the plain encoder where none is named.

    ``pooler`` tells whether the plain encoder has one (BERT and RoBERTa do): only BERT's sentence heads build on it.
    """
    names = c.texts("architectures")
    name = names[0] if names else ""
    bert_like, h = name.startswith("Bert"), t.hidden
    if name.endswith("ForMaskedLM"):
        return {"lm_head": True, "mlm_transform": True, "lm_head_bias": True, "pooler": False}
    if name.endswith("ForPreTraining") and bert_like:
        return {
            "lm_head": True,
            "mlm_transform": True,
            "lm_head_bias": True,
            "pooler": True,
            "head_products": (("next_sentence", 2, h, 1),),
        }
    if name.endswith("ForPreTraining"):
        return {"lm_head": False, "pooler": False, "head_products": (("replaced.dense", h, h, None), ("replaced", 1, h, None))}
    if name.endswith("ForQuestionAnswering"):
        return {"lm_head": False, "pooler": False, "head_products": (("answers", 2, h, None),)}
    if name.endswith("ForTokenClassification"):
        return {"lm_head": False, "pooler": False, "head_products": (("classes", _labels(c), h, None),)}
    if name.endswith(("ForSequenceClassification", "ForNextSentencePrediction", "ForMultipleChoice")):
        labels = ("classes", 1 if name.endswith("ForMultipleChoice") else _labels(c), h, 1)
        return {"lm_head": False, "pooler": bert_like, "head_products": (labels,) if bert_like else (("classes.dense", h, h, 1), labels)}
    return {"lm_head": False, "pooler": pooler}


def _encoder(c: Fields, name: str, t: Transformer, *, pooler: bool, token_types: int, **layout: Any) -> Model:
    details = Layout(final_norm=False, embedding_norm=True, token_types=token_types, **_head(c, t, pooler=pooler), **layout)
    return build_transformer(t, name=name, family="bert", kind="encoder", layout=details)


def bert(c: Fields, name: str) -> Model:
    """``model_type: bert``: the encoder with its pooler, or with the head that ``architectures`` names."""
    t = sizes(c, gated=False, norm="layernorm", tied=True, learned=True, causal=False, max_seq=512)
    return _encoder(c, name, t, pooler=True, token_types=c.integer("type_vocab_size", default=2))


def roberta(c: Fields, name: str) -> Model:
    """``model_type: roberta``: two rows of the position table are padding."""
    t = sizes(c, gated=False, norm="layernorm", tied=True, learned=True, causal=False)
    rows = t.max_seq
    t = replace(t, max_seq=max(1, rows - 2))
    return _encoder(c, name, t, pooler=True, token_types=c.integer("type_vocab_size", default=2), position_rows=rows)


def distilbert(c: Fields, name: str) -> Model:
    """``model_type: distilbert``: no token types, no pooler."""
    t = sizes(c, gated=False, norm="layernorm", tied=True, learned=True, causal=False, max_seq=512)
    c.ignore("sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout", "tie_weights_", "activation")
    return _encoder(c, name, t, pooler=False, token_types=0)


def electra(c: Fields, name: str) -> Model:
    """``model_type: electra``: the discriminator's encoder; its table may be narrower than the layers."""
    t = sizes(c, gated=False, norm="layernorm", tied=True, learned=True, causal=False, max_seq=512)
    width = c.integer("embedding_size", default=128)
    layout: dict[str, Any] = {} if width == t.hidden else {"embedding_size": width}
    return _encoder(c, name, t, pooler=False, token_types=c.integer("type_vocab_size", default=2), **layout)


def _entry(name: str, kind: str, layers: int, hidden: int, heads: int, vocab: int, source: str, *aliases: str, **more: Any) -> Entry:
    config = {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "vocab_size": vocab,
        "max_position_embeddings": 512,
        **more,
    }
    return Entry(name=name, config=config, source=source, aliases=aliases)


FAMILY = Family(
    name="bert",
    title="BERT-class encoders",
    architectures={
        "bert": bert,
        "roberta": roberta,
        "xlm-roberta": roberta,
        "camembert": roberta,
        "distilbert": distilbert,
        "electra": electra,
    },
    entries=(
        _entry("bert-tiny", "bert", 2, 128, 2, 30522, BERT, "google/bert_uncased_L-2_H-128_A-2"),
        _entry("bert-mini", "bert", 4, 256, 4, 30522, BERT),
        _entry("bert-small", "bert", 4, 512, 8, 30522, BERT),
        _entry("bert-medium", "bert", 8, 512, 8, 30522, BERT),
        _entry("bert-base", "bert", 12, 768, 12, 30522, BERT, "bert-base-uncased", "bert"),
        _entry("bert-base-cased", "bert", 12, 768, 12, 28996, BERT),
        _entry("bert-large", "bert", 24, 1024, 16, 30522, BERT, "bert-large-uncased"),
        _entry("bert-large-cased", "bert", 24, 1024, 16, 28996, BERT),
        _entry("roberta-base", "roberta", 12, 768, 12, 50265, ROBERTA, "roberta", max_position_embeddings=514, type_vocab_size=1),
        _entry("roberta-large", "roberta", 24, 1024, 16, 50265, ROBERTA, max_position_embeddings=514, type_vocab_size=1),
        _entry(
            "xlm-roberta-base",
            "roberta",
            12,
            768,
            12,
            250002,
            "Conneau et al. 2019, arXiv 1911.02116",
            max_position_embeddings=514,
            type_vocab_size=1,
        ),
        _entry(
            "xlm-roberta-large",
            "roberta",
            24,
            1024,
            16,
            250002,
            "Conneau et al. 2019, arXiv 1911.02116",
            max_position_embeddings=514,
            type_vocab_size=1,
        ),
        _entry("distilbert-base", "distilbert", 6, 768, 12, 30522, DISTIL, "distilbert", "distilbert-base-uncased"),
        _entry("electra-small", "electra", 12, 256, 4, 30522, ELECTRA, "google/electra-small-discriminator", embedding_size=128),
        _entry("electra-base", "electra", 12, 768, 12, 30522, ELECTRA, "google/electra-base-discriminator", "electra", embedding_size=768),
        _entry("electra-large", "electra", 24, 1024, 16, 30522, ELECTRA, "google/electra-large-discriminator", embedding_size=1024),
    ),
)
