"""Devices of several kinds: one job over all of them is as slow as the weakest, so each kind alone is asked as well."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.errors import UsageError
from advisor.units import format_rate
from advisor.usecases.ranking import rank_question

if TYPE_CHECKING:
    from advisor.cost.calibration import Calibration
    from advisor.search.analytic import Ranking
    from advisor.usecases.question import Question


def best_of_mixed(question: Question, calibration: Calibration) -> tuple[Question, Ranking]:
    """Return the question on the devices that answer it best (all as so many of the weakest, or one kind alone) and its ranking.

    Notes of the returned question tell what each choice gives; for inference that servers on each kind add up.
    """
    asked: list[tuple[Question, Ranking]] = []
    for hardware in (question.hardware, *question.hardware.parts):
        one = question if hardware is question.hardware else question.on(hardware)
        try:
            asked.append((one, rank_question(one, calibration)))
        except UsageError:
            if one is question and not question.hardware.parts:
                raise
    if not asked:
        return question, rank_question(question, calibration)
    able = [(one, ranking) for one, ranking in asked if len(ranking.order)]
    chosen, ranking = min(able, key=lambda pair: _least(pair[1])) if able else asked[0]
    words, total, unit = [], 0.0, ""
    for one, other in asked:
        name = f"all {one.platform.devices} as {one.platform.profile.name}" if one is question else f"{one.platform.name} alone"
        if not len(other.order):
            words.append(f"{name}: does not fit")
            continue
        rate, unit = float(other.priced.throughput[int(other.order[0])]), other.priced.throughput_unit
        total += rate if one is not question else 0.0
        words.append(f"{name}: {format_rate(rate, unit)}")
    note = f"mixed devices: {'; '.join(words)}"
    if not question.workload.is_training and unit:
        note += f"; a server on each kind gives {format_rate(total, unit)} together, requests dealt out in proportion"
    elif chosen is not question:
        note += "; the other devices wait at every step of a common job, so they are left out: give them another job"
    return replace(chosen, notes=(*question.notes, note)), ranking


def _least(ranking: Ranking) -> float:
    return float(ranking.score[int(ranking.order[0])])
