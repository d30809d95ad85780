"""Published rows read as plans, and the predictions of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.accuracy.conditions import OPTIONS, SYNCHRONOUS, options_of, settings_of
from advisor.accuracy.hardware import platform_of
from advisor.accuracy.rows import Described, describe, number, stated_plans
from advisor.accuracy.training_rows import predict, prepare
from advisor.plan.records import Plan
from advisor.results.published import read_published
from advisor.usecases.calibration import load_calibration

COLUMNS = tuple(next(iter(read_published("training"))))
ROW = dict.fromkeys(COLUMNS, "") | {
    "id": "x-1",
    "group": "mine",
    "status": "ok",
    "hardware": "A100-SXM4-80GB",
    "hw_class": "A100-80",
    "n_devices": "64",
    "devices_per_node": "8",
    "framework": "Megatron-LM 2021",
    "n_layers": "36",
    "hidden": "4096",
    "n_heads": "32",
    "vocab": "51200",
    "seq_len": "2048",
    "precision": "fp16",
    "micro_batch": "4",
    "global_batch": "512",
    "dp": "16",
    "tp": "4",
    "pp": "1",
    "activation_checkpointing": "full",
    "flash_attention": "n",
    "step_time_s": "20",
}


def described(**changes: str) -> Described:
    found = describe(ROW | changes)
    assert isinstance(found, Described), found
    return found


def test_a_row_becomes_model_platform_and_plan() -> None:
    found = described()
    assert found.model.parameters == pytest.approx(7.5e9, rel=0.02)
    assert found.platform.devices == 64
    assert found.plan is not None
    assert (found.plan.dp, found.plan.tp, found.plan.micro_batch, found.plan.grad_accumulation) == (16, 4, 4, 8)
    assert (found.plan.recompute, found.plan.attention, found.plan.precision) == ("full", "math", "fp16")
    assert found.time_s == 20


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hw_class": "other/unstated", "hardware": "some GPU"}, "hardware is not named"),
        ({"seq_len": ""}, "sequence length"),
        ({"global_batch": "", "micro_batch": ""}, "batch"),
        ({"dp": "3"}, "degrees"),
        ({"n_devices": ""}, "devices"),
        ({"n_layers": "", "model_name": "nobody-knows-9b"}, "name is not known"),
    ],
)
def test_what_cannot_be_described_says_why(changes: dict[str, str], reason: str) -> None:
    found = describe(ROW | changes)
    assert isinstance(found, str)
    assert reason in found


def test_a_missing_layout_is_not_a_plan() -> None:
    assert described(tp="", pp="").plan is None


def test_time_from_its_own_definition_of_flops() -> None:
    """Hardware FLOP/s count the recomputed forward: four forward passes where model FLOP/s count three."""
    hardware = described(step_time_s="", tflops_per_device="150", tflops_kind="hardware (paper formula incl. recompute)")
    model = described(step_time_s="", tflops_per_device="150", tflops_kind="model")
    assert hardware.time_s is not None
    assert model.time_s is not None
    assert hardware.time_s / model.time_s == pytest.approx(4 / 3)


def test_the_note_on_the_network_overrides_the_system() -> None:
    platform = platform_of("A100-80", "A100", 64, 8, "4 x 100Gb RoCE per node")
    assert not isinstance(platform, str)
    assert platform.tiers[-1].bandwidth_bytes_per_s == pytest.approx(4 * 100e9 / 8 / 8)
    assert "roce" in platform.tiers[-1].kind


@given(st.text(max_size=12))
def test_number_never_raises(text: str) -> None:
    value = number(text)
    assert value is None or value >= 0


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.sampled_from(COLUMNS), st.sampled_from(["", "0", "-1", "x", "1e9", "3.5", "full", "zero-1"]), max_size=5))
def test_a_damaged_row_is_skipped_with_a_reason_or_priced(changes: dict[str, str]) -> None:
    result = list(predict(prepare([ROW | changes], load_calibration()), load_calibration()))
    assert result
    for p in result:
        assert p.skipped or p.status == "oom" or (p.predicted is not None and np.isfinite(p.predicted) and p.predicted > 0)


def test_published_rows_are_predicted_within_the_first_bars() -> None:
    predictions = list(predict(prepare(read_published("training"), load_calibration()), load_calibration()))
    time = [abs(p.error) for p in predictions if p.quantity == "time" and p.error is not None and not p.assumed]
    memory = [abs(p.error) for p in predictions if p.quantity == "memory" and p.error is not None]
    assert len(time) >= 300
    assert np.median(time) < 0.15
    assert np.median(memory) < 0.10


def test_a_row_without_its_micro_batch_keeps_all_else_it_states() -> None:
    chosen: list[object] = []
    prepared = prepare([ROW | {"micro_batch": ""}], load_calibration(), lambda *question: chosen.append(question))
    assert prepared.assumed == [True]
    assert not chosen
    plan = prepared.plans[0]
    assert (plan.dp, plan.tp, plan.pp, plan.framework, plan.recompute, plan.attention) == (16, 4, 1, "megatron-2021", "full", "math")
    assert plan.micro_batch in {p.micro_batch for p in stated_plans(prepared.described[0])}


def test_an_assumed_layout_runs_the_software_that_the_row_names() -> None:
    other = Plan(framework="torch", execution="eager", precision="bf16", dp=64, devices=64, micro_batch=8, global_batch=512)
    row = ROW | {"tp": "", "dp": "", "pp": ""}
    prepared = prepare([row], load_calibration(), lambda *question: other)
    plan = prepared.plans[0]
    assert (plan.framework, plan.precision, plan.attention, plan.dp) == ("megatron-2021", "fp16", "math", 64)


def test_runs_that_hung_without_it_were_launched_synchronously() -> None:
    row = {"source": "bigscience train/tr11-176B-ml/chronicles-prequel.md | fp16"}
    assert settings_of(row, 384) == {SYNCHRONOUS}
    assert not settings_of(row, 160)
    assert not settings_of({"source": "elsewhere"}, 384)


def test_a_stated_condition_reaches_the_terms_and_costs_time() -> None:
    table = [ROW, ROW | {"source": "train/tr11-176B-ml/chronicles-prequel.md", "n_devices": "384", "dp": "96", "global_batch": "1536"}]
    prepared = prepare(table, load_calibration())
    assert prepared.terms is not None
    assert list(prepared.terms.synchronous) == [0.0, 1.0]


def test_a_rate_above_the_peak_is_no_measurement() -> None:
    found = describe(ROW | {"step_time_s": "100"})
    assert isinstance(found, Described)
    assert describe(ROW | {"step_time_s": "1e-3"}) == "the printed rate is beyond the device's peak"


def test_rows_of_one_name_but_other_shapes_are_no_family() -> None:
    table = [ROW | {"id": str(i), "model_name": "GPT-7B", "hidden": hidden} for i, hidden in enumerate(("4096", "3072"))]
    known = load_calibration()
    families = {p.family for p in predict(prepare(table, known), known)}
    assert len(families) == 2
    assert None not in families


@pytest.mark.parametrize(
    ("notes", "options"),
    [
        ("FSDP + torch.compile + Float8", {"compile"}),
        ("async TP, torch.compile", {"compile", "async-tp"}),
        ("vanilla TP", set()),
        ("QLoRA; packed", {"qlora"}),
        ("LoRA Performance", {"lora"}),
        ("SFT Performance", {"full-finetune"}),
        ("bnb 8-bit optimizer", {"adam8bit"}),
        ("baseline w/o bnb", set()),
        ("schedule Interleaved 1F1B + torch.compile", {"compile", "interleaved"}),
        ("full activation recompute & interleaving used in paper", set()),
    ],
)
def test_options_are_read_from_notes(notes: str, options: set[str]) -> None:
    assert options_of({"notes": notes}) == options


def test_options_of_shipped_rows_are_listed_and_known() -> None:
    rows = {row["id"]: row for row in read_published("training")}
    listed = {name: options_of(row) for name, row in rows.items() if options_of(row)}
    assert len(listed) == 55
    assert set().union(*listed.values()) <= set(OPTIONS)
    assert {describe(rows[name]).plan.execution for name in listed if "compile" in listed[name] and "torchtitan" in name} == {"compile"}


def test_what_a_row_states_in_words_reaches_its_plan() -> None:
    base = ROW | {"framework": "torchtitan", "hw_class": "H100-80", "hardware": "H100-SXM5-80GB", "pp": "4", "dp": "4"}
    words = {"precision": "bf16+float8 rowwise", "notes": "Interleaved 1F1B + torch.compile"}
    found = describe(base | words)
    assert isinstance(found, Described)
    assert found.plan is not None
    assert (found.plan.precision, found.plan.vpp, found.plan.execution) == ("fp8_rows", 2, "compile")
    rows, whole = (prepare([base | {"precision": p}], load_calibration()).terms for p in ("bf16+float8 rowwise", "bf16+float8 tensorwise"))
    assert float(rows.gemm_forward[0]) > float(whole.gemm_forward[0])


def test_split_exchanges_run_beside_products() -> None:
    table = [ROW | {"notes": "vanilla TP"}, ROW | {"notes": "async TP"}]
    plain, split = prepare(table, load_calibration()).terms.overlap_tensor
    assert split > plain
