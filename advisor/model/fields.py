"""Reads a model's configuration strictly: every value checked, every key that was not understood remembered.

Keys differ by family (``n_layer``, ``num_hidden_layers``); one table of synonyms serves them all. Nothing but UsageError leaves here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from advisor.errors import UsageError

#: The name families ask for, and the other names configurations use for it. Our own short names come last.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "layers"),
    "hidden_size": ("n_embd", "d_model", "model_dim", "dim", "embed_dim", "hidden"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads", "heads"),
    "num_key_value_heads": ("num_kv_heads", "n_kv_heads", "n_head_kv", "kv_heads"),
    "intermediate_size": ("ffn_dim", "n_inner", "ffn_hidden_size", "d_ff", "hidden_dim", "ffn_hidden"),
    "vocab_size": ("padded_vocab_size", "vocab"),
    "max_position_embeddings": ("n_positions", "max_seq_len", "seq_length", "n_ctx", "max_sequence_length", "max_seq"),
    "num_local_experts": ("num_experts", "n_routed_experts", "experts"),
    "num_experts_per_tok": ("moe_top_k", "experts_per_token", "num_experts_per_token"),
    "moe_intermediate_size": ("moe_ffn_hidden",),
    "tie_word_embeddings": ("tied_embeddings",),
    "sliding_window": ("window",),
}

#: Keys that change neither shapes nor counts. What is in neither this set nor read by a family is reported.
_HARMLESS_KEYS = """_name_or_path architectures attn_implementation auto_map bad_words_ids begin_suppress_tokens
    bos_token_id chunk_size_feed_forward
    classifier_dropout cross_attention_hidden_size decoder_start_token_id diversity_penalty do_sample dtype early_stopping
    eos_token_id exponential_decay_length_penalty family finetuning_task forced_bos_token_id forced_eos_token_id
    gradient_checkpointing hidden_act hidden_activation activation_function id2label init_std initializer_factor initializer_range
    is_encoder_decoder label2id language layer_norm_eps layer_norm_epsilon layer_norm_elementwise_affine layerdrop
    encoder_layerdrop decoder_layerdrop length_penalty model_type name no_repeat_ngram_size norm_epsilon num_beam_groups num_beams
    output_attentions output_hidden_states output_past output_scores pad_token_id prefix problem_type remove_invalid_values
    repetition_penalty return_dict return_dict_in_generate rms_norm_eps rope_parameters rope_scaling rope_theta rotary_emb_base
    rotary_pct rotary_dim partial_rotary_factor scale_attn_by_inverse_layer_idx scale_attn_weights reorder_and_upcast_attn
    sep_token_id source summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj
    suppress_tokens task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p torch_dtype
    torchscript transformers_version typical_p unk_index use_bfloat16 use_cache vocab_files pretraining_tp mlp_activation
    attention_probs_dropout_prob hidden_dropout_prob dropout_rate attention_softmax_in_fp32 scale_embedding logit_scale
    logits_scaling embedding_multiplier residual_multiplier attention_multiplier final_logit_softcapping attn_logit_softcapping
    query_pre_attn_scalar rope_local_base_freq router_aux_loss_coef router_jitter_noise output_router_logits aux_loss_alpha
    seq_aux routed_scaling_factor scoring_func topk_method topk_group n_group norm_topk_prob moe_layer_freq ep_size unused_token
    apply_residual_connection_post_layernorm masked_softmax_fusion slow_but_exact image_mean image_std normalize_before
    do_layer_norm_before aliases cache_implementation num_logits_to_keep original_max_position_embeddings bos_token eos_token
    transformers.js_config hidden_dropout resid_pdrop embd_pdrop attn_pdrop rope_interleaved rope_interleave max_window_layers
    use_mrope router_z_loss_coef dropout classifier_dropout_prob swiglu_alpha use_associative_scan scale_attention_softmax_in_fp32
    classifier_proj_size"""
HARMLESS = frozenset(_HARMLESS_KEYS.split())
_HARMLESS_ENDS = ("_dropout", "_token_id", "_pdrop", "_token_ids", "_eps", "_epsilon", "_theta", "_std", "_loss_coef", "_factor", "_init")

#: Keys that matter only where they differ from these values.
HARMLESS_AT: dict[str, tuple[Any, ...]] = {
    "add_cross_attention": (None, False),
    "is_decoder": (None, False),
    "position_embedding_type": (None, "absolute", "rope"),
    "pruned_heads": (None, {}, []),
    "quantization_config": (None,),
    "num_nextn_predict_layers": (None, 0),
}

#: No dimension of a network known today comes near it; it keeps nonsense from becoming a loop that never ends.
LARGEST = 1 << 32
MOST_LAYERS = 10_000

_ABSENT: Any = object()


class Fields:
    """A configuration mapping; ``what`` names it in messages (a path, or a model's name)."""

    def __init__(self, data: Mapping[str, Any], what: str) -> None:
        self.data = data
        self.what = what
        self.used: set[str] = set()
        self.parts: list[tuple[str, Fields]] = []

    def fail(self, message: str, hint: str | None = None) -> UsageError:
        """Return the error for a value that is wrong in this configuration."""
        return UsageError(f"{self.what}: {message}", hint, code="BAD-MODEL")

    def fill(self, defaults: Mapping[str, Any]) -> None:
        """Supply values for keys that released files of an architecture leave out; what the file says wins."""
        self.data = {**{key: value for key, value in defaults.items() if not self.has(key)}, **self.data}

    def _find(self, names: tuple[str, ...]) -> tuple[str, Any]:
        found: tuple[str, Any] = (names[0], _ABSENT)
        for name in names:
            for key in (name, *SYNONYMS.get(name, ())):
                if key in self.data:
                    self.used.add(key)
                    if found[1] is _ABSENT or found[1] is None:
                        found = (key, self.data[key])
        return found

    def has(self, *names: str) -> bool:
        """Tell whether one of ``names`` is given and not null."""
        return self._find(names)[1] not in (_ABSENT, None)

    def integer(self, *names: str, default: int | None = None, low: int = 1, high: int = LARGEST) -> int:
        """Return a whole number within bounds; ``default`` where it is absent or null."""
        value = self.optional(*names, low=low, high=high)
        if value is not None:
            return value
        if default is None:
            others = "".join(f" (or {other})" for other in names[1:])
            raise self.fail(f"{names[0]!r}{others} is missing")
        return default

    def optional(self, *names: str, low: int = 1, high: int = LARGEST) -> int | None:
        """Return a whole number within bounds, or None where it is absent or null."""
        key, value = self._find(names)
        if value is _ABSENT or value is None:
            return None
        return self._whole(key, value, low, high)

    def _whole(self, key: str, value: Any, low: int, high: int) -> int:
        if isinstance(value, float) and math.isfinite(value) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(f"{key!r} must be a whole number, not {_show(value)}")
        if not low <= value <= high:
            raise self.fail(f"{key!r} must be between {low} and {high}, not {_show(value)}")
        return value

    def layers(self, *names: str, default: int | None = None) -> int:
        """Return a number of layers."""
        return self.integer(*(names or ("num_hidden_layers",)), default=default, high=MOST_LAYERS)

    def number(self, *names: str, default: float) -> float:
        """Return a finite positive number."""
        key, value = self._find(names)
        if value is _ABSENT or value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(f"{key!r} must be a number, not {_show(value)}")
        if not 0 < value < LARGEST:
            raise self.fail(f"{key!r} must be positive and finite, not {_show(value)}")
        return float(value)

    def flag(self, *names: str, default: bool) -> bool:
        """Return true or false."""
        key, value = self._find(names)
        if value is _ABSENT or value is None:
            return default
        if not isinstance(value, bool):
            raise self.fail(f"{key!r} must be true or false, not {_show(value)}")
        return value

    def text(self, *names: str, default: str) -> str:
        """Return a string."""
        key, value = self._find(names)
        if value is _ABSENT or value is None:
            return default
        if not isinstance(value, str):
            raise self.fail(f"{key!r} must be a string, not {_show(value)}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings, empty where absent."""
        key, value = self._find((name,))
        if value is _ABSENT or value is None:
            return ()
        if not isinstance(value, list | tuple) or len(value) > MOST_LAYERS or not all(isinstance(item, str) for item in value):
            raise self.fail(f"{key!r} must be a list of strings, not {_show(value)}")
        return tuple(value)

    def integers(self, *names: str, low: int = 0, high: int = LARGEST) -> tuple[int, ...] | None:
        """Return a list of whole numbers, a single one as a list of one, or None where absent."""
        key, value = self._find(names)
        if value is _ABSENT or value is None:
            return None
        items = list(value) if isinstance(value, list | tuple) else [value]
        if len(items) > MOST_LAYERS:
            raise self.fail(f"{key!r} has {len(items)} items; at most {MOST_LAYERS} are read")
        return tuple(self._whole(key, item, low, high) for item in items)

    def length(self, name: str) -> int | None:
        """Return how many items a mapping or list has, or None where absent."""
        _, value = self._find((name,))
        return len(value) if isinstance(value, dict | list) else None

    def section(self, *names: str) -> Fields | None:
        """Return a nested mapping, or None where absent."""
        key, value = self._find(names)
        if value is _ABSENT or value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.fail(f"{key!r} must be a mapping, not {_show(value)}")
        part = Fields(value, f"{self.what}: {key}")
        self.parts.append((key, part))
        return part

    def ignore(self, *names: str) -> None:
        """Declare keys as understood although they change nothing that is counted."""
        self.used.update(names)

    def ignored(self) -> tuple[str, ...]:
        """Return the keys nobody asked for and that may matter, nested ones as ``text_config.key``."""
        rest = [key for key in self.data if isinstance(key, str) and key not in self.used and not self._harmless(key)]
        for name, part in self.parts:
            rest += [f"{name}.{key}" for key in part.ignored()]
        return tuple(sorted(set(rest)))

    def _harmless(self, key: str) -> bool:
        if key in HARMLESS_AT:
            return self.data[key] in HARMLESS_AT[key]
        return key in HARMLESS or key.endswith(_HARMLESS_ENDS)


def _show(value: Any) -> str:
    """Show a wrong value in a message, shortened; never fails, however large or deep the value is."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        return f"a number of more than {value.bit_length() * 3 // 10} digits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
