"""How many rounds an experiment takes (as many as asked for, up to twice as many where they leave the verdict open), and in which order."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.claims.records import Claim, Outcome
from advisor.claims.verdict import judge_outcome

#: Rounds at most, as a multiple of those asked for.
MOST = 2
#: A verdict rests on at least so many rounds: one cannot tell how much the next one differs.
LEAST = 2


def enough(claim: Claim, outcome: Outcome, done: int, asked: int) -> bool:
    """Tell whether ``done`` rounds suffice."""
    if done < asked:
        return False
    return done >= MOST * asked or judge_outcome(claim, outcome)[0] != "inconclusive"


def in_turns(sides: Sequence[str], number: int) -> list[str]:
    """Return the order of round ``number``: the side that goes first changes, so that drift of the machine hits both alike."""
    return list(sides) if number % 2 == 0 else list(sides)[::-1]
