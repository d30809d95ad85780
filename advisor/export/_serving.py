"""What the serving formats share: which plans they can say, and the sizes of a running engine."""

from __future__ import annotations

from advisor.export._spec import Answer
from advisor.export._text import one_line

#: Tokens scheduled in one step, unless more sequences run at once: the default of vLLM's and TensorRT-LLM's servers.
_TOKENS_PER_STEP = 8192
#: Share of the memory that an engine may take: vLLM's default.
MEMORY_SHARE = 0.90


def engine_obstacle(answer: Answer, name: str) -> str | None:
    """Return why an LLM engine cannot serve the plan, or None."""
    p = answer.plan
    if answer.is_training:
        return f"{name} serves; the plan trains (`torchrun`, `megatron` and others write that)"
    if answer.model["kind"] != "decoder":
        return f"{name} serves models that generate text, {answer.model['name']} is of the kind {answer.model['kind']}; `triton` can"
    if p.cp > 1:
        return f"{name}'s configuration does not split the sequence (cp {p.cp})"
    return None


def sequences(answer: Answer) -> int:
    """Sequences one replica runs at once."""
    return max(1, answer.plan.micro_batch)


def tokens_per_step(answer: Answer) -> int:
    """Tokens one replica schedules in a step: at least one for every sequence."""
    return max(_TOKENS_PER_STEP, sequences(answer))


def cache_dtype(answer: Answer) -> str:
    """Return how keys and values are kept, as the plan was priced: ``fp8``, or ``auto`` for the width of the computation."""
    from advisor.cost.inference_terms import numbers_of

    return "fp8" if numbers_of(answer.plan.precision, answer.plan.quantization).cache_bytes == 1.0 else "auto"


def lengths_note(answer: Answer) -> str:
    """Return the header line about the longest sequence: a server refuses what is longer."""
    return f"Prompt and answer together are at most {answer.seq_len} tokens, as the question says; longer requests are refused."


def weights(answer: Answer) -> str:
    """Return where the weights come from: an id on a model hub where one is known, else the model's name for people to replace.

    One line always: what has a line break is no path that a server could load.
    """
    return answer.hub or one_line(str(answer.model["name"]))


def weights_note(answer: Answer) -> str:
    """Return the header line about the weights."""
    if answer.hub:
        return f"The weights are {answer.hub} of the model hub."
    return f"Put the folder or the hub id of your weights in the place of {answer.model['name']}."
