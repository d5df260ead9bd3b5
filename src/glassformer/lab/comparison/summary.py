"""The numbers that tables, figures and the README share, each derived from the results by a stated formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from glassformer.lab.comparison.bias import VARIANTS as POSITIONS
from glassformer.lab.comparison.cost import LINEAR, SQUARE
from glassformer.lab.comparison.results import Estimate, Results, estimate
from glassformer.lab.parts import slope


class Exponent(NamedTuple):
    """p of t ≈ c·n^p as measured, and of the multiplications that the formula counts over the same sizes."""

    measured: Estimate
    counted: float


def times(results: Results, kind: str, architecture: str, *, n: int, d: int) -> list[float]:
    return [unit[kind][architecture] for unit in results.select("cost", "layer", n=n, d=d)]


def in_n(results: Results, architecture: str, kind: str = "both") -> Exponent:
    """Over the upper half of the lengths at the smallest width: where n² shows if it is there."""
    lengths, d = results.plan.cost.lengths, results.plan.cost.widths[0]
    upper = lengths[len(lengths) // 2 :] if len(lengths) > 3 else lengths
    return _exponent(results, architecture, kind, upper, [(n, d) for n in upper])


def in_d(results: Results, architecture: str, kind: str = "both") -> Exponent:
    """Over the upper half of the widths at the largest length: where d² shows if it is there."""
    widths, n = results.plan.cost.widths, results.plan.cost.lengths[-1]
    upper = widths[len(widths) // 2 :] if len(widths) > 3 else widths
    return _exponent(results, architecture, kind, upper, [(n, d) for d in upper])


def _exponent(
    results: Results, architecture: str, kind: str, across: Sequence[int], places: Sequence[tuple[int, int]]
) -> Exponent:
    found = [results.select("cost", "layer", n=n, d=d) for n, d in places]
    seeds = zip(*([unit[kind][architecture] for unit in units] for units in found), strict=True)
    counted = [units[0]["multiplications"][architecture] for units in found]
    return Exponent(estimate(slope(across, each) for each in seeds), slope(across, counted))


def crossing(results: Results, d: int) -> Estimate | None:
    """The n at which attention's n² part takes as long as its projections, forward; None if it is not among those.

    Between two lengths, where the ratio of both passes 1 on a logarithmic scale. The formula says n = 2d.
    """
    lengths = results.plan.cost.lengths
    found = [results.select("cost", "layer", n=n, d=d) for n in lengths]
    ratios = [[unit["halves"][SQUARE] / unit["halves"][LINEAR] for unit in units] for units in found]
    places = [_passes(lengths, seed) for seed in zip(*ratios, strict=True)]
    known = [place for place in places if place is not None]
    return estimate(known) if len(known) == len(places) else None


def overtaken(results: Results, other: str, d: int) -> float | None:
    """The n from which self-attention takes longer than another layer of as many parameters; None if it does not."""
    lengths = results.plan.cost.lengths
    ratios = []
    for n in lengths:
        own, its = (min(times(results, "both", name, n=n, d=d)) for name in ("Transformer", other))
        ratios.append(own / its)
    return _passes(lengths, ratios)


def _passes(x: Sequence[float], ratios: Sequence[float]) -> float | None:
    """From where on the ratio is above 1, to the end: the first x if everywhere, None if not at the last."""
    if ratios[-1] < 1:
        return None
    below = [k for k, ratio in enumerate(ratios) if ratio < 1]
    if not below:
        return float(x[0])
    k = below[-1]
    share = math.log(1 / ratios[k]) / math.log(ratios[k + 1] / ratios[k])
    return math.exp(math.log(x[k]) + share * math.log(x[k + 1] / x[k]))


def speed_up(results: Results, architecture: str) -> float:
    """t(1 thread) / t(most threads), the best of all seeds each: what disturbs a clock on the wall makes it longer."""
    found = [unit["both"][architecture] for unit in results.select("cost", "threads")]
    return float(min(times[0] for times in found) / min(times[-1] for times in found))


def load(results: Results) -> float:
    """The least that wanted a core when threads were timed, this process included."""
    return min(float(unit["load"]) for unit in results.units if unit["part"] == "threads")


def quiet(results: Results) -> bool:
    """Once, at least, others wanted less than half a core; else a second thread is a second share of the machine."""
    return load(results) < 1.5


def rate(results: Results, architecture: str) -> Estimate:
    """Billions of multiplications a second, forward, in the middle of the sizes: how much of a core is at work."""
    lengths, widths = results.plan.cost.lengths, results.plan.cost.widths
    n, d = lengths[len(lengths) // 2], widths[-1]
    count = lambda unit: unit["multiplications"][architecture] / unit["forward"][architecture] / 1e9
    return results.over("cost", "layer", count, n=n, d=d)


def gradient(results: Results, architecture: str, distance: int) -> Estimate:
    return results.over(
        "reach", "gradient", lambda unit: unit["gradient"], architecture=architecture, distance=distance
    )


def recalled(results: Results, architecture: str, distance: int) -> Estimate:
    return results.over("reach", "recall", lambda unit: unit["accuracy"], architecture=architecture, distance=distance)


def reach(results: Results, architecture: str) -> int:
    """The longest distance up to which the first token is recalled in at least half of the sequences (chance: 1/8)."""
    longest = 0
    for distance in results.plan.reach.distances:
        if recalled(results, architecture, distance).mean < 0.5:
            break
        longest = distance
    return longest


def learned(results: Results, architecture: str, size: int) -> Estimate:
    return results.over("data", "images", lambda unit: unit["accuracy"], architecture=architecture, size=size)


def gap(results: Results, size: int) -> Estimate:
    """Convolutional minus Transformer, seed by seed."""
    both = (results.select("data", "images", architecture=name, size=size) for name in ("CNN", "Transformer"))
    return estimate(cnn["accuracy"] - vit["accuracy"] for cnn, vit in zip(*both, strict=True))


def narrowing(results: Results) -> Estimate:
    """By how much the gap is smaller with the most images than with the fewest, seed by seed."""
    sizes = results.plan.data.sizes
    ends = [
        [unit["accuracy"] for unit in results.select("data", "images", architecture=name, size=size)]
        for size in (sizes[0], sizes[-1])
        for name in ("CNN", "Transformer")
    ]
    return estimate((a - b) - (c - d) for a, b, c, d in zip(*ends, strict=True))


def closes(results: Results) -> int | None:
    """The smallest size from which on the gap's interval holds 0 or lies below; None if it never does."""
    place = None
    for size in reversed(results.plan.data.sizes):
        if gap(results, size).low > 0:
            break
        place = size
    return place


def frame(results: Results, name: str, after: int) -> Estimate:
    return results.over("streaming", "frame", lambda unit: unit["frame"][name], after=after)


def held(results: Results, name: str, after: int) -> int:
    return int(results.select("streaming", "frame", after=after)[0]["held"][name])


def seen(results: Results, name: str) -> tuple[float, float, float]:
    """Right answers on images as learned, on the most shifted, and after learning from mixed patches."""
    over = lambda number, order: results.over("bias", "images", number, architecture=name, order=order).mean
    right, by = (lambda unit: unit["accuracy"]), str(results.plan.bias.shifts[-1])
    return over(right, "whole"), over(lambda unit: unit["shifted"][by], "whole"), over(right, "shuffled")


def moved(results: Results, name: str) -> float:
    """‖f(shift x) − shift f(x)‖ / ‖f(x)‖ for one stride."""
    return results.over("bias", "features", lambda unit: unit["off by one stride"], architecture=name).mean


def longer(results: Results, name: str) -> Estimate:
    """Right answers at the greatest length; of a Transformer, with the positions that carry farther."""
    n = str(results.plan.bias.longer[-1])
    kinds = list(POSITIONS) if name == "Transformer" else [name]
    found = [results.over("bias", "longer", lambda unit: unit["accuracy"][n], architecture=kind) for kind in kinds]
    return max(found, key=lambda each: each.mean)


def power(value: float) -> str:
    """A part of 1 as one reads it: 4 %, 10⁻⁴⁴, 0."""
    if not value:
        return "0"
    if value >= 1e-3:
        return f"{100 * value:.2g} %" if value < 1 else f"{100 * value:,.0f} %"
    return "10" + str(round(math.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def points(share: float) -> str:
    """+1, 0 or −48 hundredths, with a sign that is no hyphen."""
    value = round(100 * share)
    return f"{value:+d}".replace("-", "−") if value else "0"
