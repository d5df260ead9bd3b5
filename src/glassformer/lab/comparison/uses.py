"""What each architecture is best used for: where fewest others are measurably better.

Uses are measured in seconds, shares and numbers kept, which cannot be weighed against each other; who is ahead of whom
can, in each of them. One architecture is ahead of another if their 95 % intervals over seeds do not meet. So the best
use is the one with the fewest others ahead; among those, the one with the fewest that cannot be told from it; among
those, the one in which it leads the next by the largest factor (of time, of numbers kept, of the share that is wrong).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from glassformer.lab.comparison import summary
from glassformer.lab.comparison.results import Estimate, Results, estimate

SEEING = ("Transformer", "CNN")  # compared on the images of all sizes
FEWEST = 1e-3  # wrong answers: fewer are not told apart by so few tests


class Use(NamedTuple):
    """Something to use a network for, and how well each does that takes part; `share` of right answers, or a cost."""

    name: str
    of: Mapping[str, Estimate]
    share: bool
    told: Callable[[float], str]

    def cost(self, name: str) -> tuple[float, float]:
        """Both ends of the interval of what is to be small: wrong answers, seconds, numbers."""
        each = self.of[name]
        return (1 - each.high, 1 - each.low) if self.share else (each.low, each.high)


class Standing(NamedTuple):
    """Compared field by field: the smallest is the best."""

    ahead: int
    alike: int
    lead: float  # log of its cost over the next one's


def standing(use: Use, name: str) -> Standing:
    low, high = use.cost(name)
    others = [use.cost(other) for other in use.of if other != name]
    ahead = sum(other[1] < low for other in others)
    behind = sum(high < other[0] for other in others)
    middle = lambda ends: max(sum(ends) / 2, FEWEST if use.share else 0.0)
    lead = math.log(middle((low, high)) / min(map(middle, others))) if others else 0.0
    return Standing(ahead, len(others) - ahead - behind, lead)


def best_use(results: Results, name: str) -> str:
    """In words, with its number, and how many others are ahead or alike."""
    chosen = min((use for use in uses(results) if name in use.of), key=lambda use: standing(use, name))
    ahead, alike, _ = standing(chosen, name)
    notes = [f"{ahead} ahead"] * bool(ahead) + [f"{alike} alike"] * bool(alike)
    return chosen.told(chosen.of[name].mean) + (f"; {', '.join(notes)}" if notes else "")


def uses(results: Results) -> list[Use]:
    """Every distance, every number of images, a long stream, short and long inputs, longer ones than trained."""
    return [*_recalling(results), *_seeing(results), *_streaming(results), *_layers(results), _longer(results)]


def milliseconds(seconds: float) -> str:
    value = 1e3 * seconds
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.2f} ms"


def _recalling(results: Results) -> list[Use]:
    return [
        Use(
            f"recall {n}",
            {name: summary.recalled(results, name, n) for name in results.architectures},
            True,
            lambda value, n=n: f"recall over {n} tokens ({value:.0%} right)",  # type: ignore[misc]
        )
        for n in results.plan.reach.distances
    ]


def _seeing(results: Results) -> list[Use]:
    seeing = [name for name in results.architectures if name in SEEING]
    return [
        Use(
            f"images {size}",
            {name: summary.learned(results, name, size) for name in seeing},
            True,
            lambda value, size=size: f"pictures, {size:,} to learn from ({value:.0%} right)",  # type: ignore[misc]
        )
        for size in results.plan.data.sizes
    ]


def _streaming(results: Results) -> list[Use]:
    after = results.plan.streaming.after[-1]
    times = {name: summary.frame(results, name, after) for name in results.architectures}
    kept = {name: Estimate(float(summary.held(results, name, after)), None, 1) for name in results.architectures}
    return [
        Use("stream", times, False, lambda value: f"streams: {milliseconds(value)} a token after {after:,}"),
        Use("state", kept, False, lambda value: f"small state: {value:,.0f} numbers after {after:,} tokens"),
    ]


def _layers(results: Results) -> list[Use]:
    cost = results.plan.cost
    d = cost.widths[-1]
    ends = {"short": cost.lengths[0], "long": cost.lengths[-1]}
    over = lambda n: {name: estimate(summary.times(results, "both", name, n=n, d=d)) for name in results.architectures}
    return [
        Use(
            word,
            over(n),
            False,
            lambda value, word=word, n=n: f"{word} inputs: {milliseconds(value)} a layer on {n:,} tokens",  # type: ignore[misc]
        )
        for word, n in ends.items()
    ]


def _longer(results: Results) -> Use:
    length = results.plan.bias.longer[-1]
    return Use(
        "longer",
        {name: summary.longer(results, name) for name in results.architectures},
        True,
        lambda value: f"inputs of {length} after learning from {results.plan.bias.length} ({value:.0%} right)",
    )
