"""E[ΔH_j] = ½ β²σ²‖q_j‖² A_ji (1 − 2 A_ji)(v_i − H_j) + …: zero-mean noise on a key does shift the mean of H."""

from __future__ import annotations

from itertools import product

from matplotlib.figure import Figure

from glassformer.core import attend
from glassformer.lab import plots
from glassformer.lab.experiment import NOT_JUDGED, Experiment, Kind, Result
from glassformer.lab.tensors import exercise, generator, random_qkv, tensor
from glassformer.lens import Layer, noise_on_key
from glassformer.lens.perturb import fitted_exponent

SIGMAS = [0.25, 0.35, 0.5, 0.7]
ERRORS = 6  # a mean at least this many standard errors from 0 is not 0


def measure(seed: int, *, queries: int = 4, keys: int = 4, width: int = 4, samples: int = 100_000) -> Result:
    layer = Layer(*random_qkv(generator(seed), queries, keys, width), width**-0.5)
    mean, predicted, spread = [], [], []
    for sigma in SIGMAS:  # the same noise, scaled by every σ
        noise = noise_on_key(layer, 0, sigma, samples=samples, generator=generator(seed + 1))
        mean.append(float(noise.measured.mean_H.norm()))
        predicted.append(float(noise.predicted.mean_H.norm()))
        spread.append(float(noise.measured.std_H.norm()))
    error = [each / samples**0.5 for each in spread]
    parts = {"sigmas": SIGMAS, "mean": mean, "predicted": predicted, "spread": spread, "error": error}
    return {**parts, "counterexample": _smallest()}


def _smallest() -> dict[str, object] | None:
    """Find the smallest pair of keys for which noise of ±1 on the first changes its mean weight."""
    q, V = [[1]], [[1], [0]]
    for a, b in sorted(product((0, 1, 2), repeat=2), key=lambda pair: (sum(pair), pair)):
        H = [float(attend(tensor(q), tensor([[a + e], [b]]), tensor(V), beta=1.0).H) for e in (0, 1, -1)]
        if abs((H[1] + H[2]) / 2 - H[0]) > 1e-9:
            heads = [(q, [[a + e], [b]], V) for e in (0, 1, -1)]
            text = "Heads 2 and 3 add +1 and −1 to the first key of head 1. Is the mean of H2 and H3 equal to H1?"
            return exercise("Zero-mean noise", text, *heads)
    return None


def judge(result: Result) -> tuple[Kind, str]:
    ratio, spread = result["mean"][-1] / result["error"][-1], result["mean"][-1] / result["spread"][-1]
    power = result["predicted"][-1] / result["error"][-1]
    if ratio < ERRORS and power < 2 * ERRORS:
        return "fails", (
            f"the experiment cannot tell: at σ = {SIGMAS[-1]} the mean change of H is {ratio:.2g} standard errors from "
            f"0, and the second-order term would be only {power:.2g}; more samples are needed"
        )
    if ratio < ERRORS:
        return "holds", (
            f"at σ = {SIGMAS[-1]} the mean change of H is {ratio:.2g} standard errors from 0, where the second-order "
            f"term would be {power:.2g}"
        )
    order = fitted_exponent(result["sigmas"], result["mean"])
    return "fails", (
        f"at σ = {SIGMAS[-1]} the mean of H changes by {result['mean'][-1]:.2g}, {ratio:.0f} standard errors from "
        f"0. {NOT_JUDGED}: the second-order term is {result['predicted'][-1]:.2g}; the change grows as σ^{order:.2f} "
        f"and is {spread:.0%} of the standard deviation of ΔH"
    )


def draw(result: Result) -> Figure:
    lines = {
        "|mean ΔH|, measured": result["mean"],
        "predicted to second order": result["predicted"],
        "standard error": result["error"],
        "standard deviation of ΔH": result["spread"],
    }
    title = "mean and standard deviation of ΔH"
    return plots.curves(result["sigmas"], lines, across="σ", up="", title=title, log="xy")


CLAIM = Experiment(
    number=5,
    name="zero-mean noise",
    statement="Because the noise on a key has zero mean, H does not change on average.",
    formula="E[ε] = 0 ⇒ E[ΔH] = 0",
    measured="The mean change of H over many samples of noise on one key, for four standard deviations σ, compared "
    "with its standard error and with the second-order term ½β²σ²‖q‖²A(1 − 2A)(v − H).",
    rule=f"“holds” if the mean change at the largest σ is less than {ERRORS} standard errors from 0, with so many "
    f"samples that the second-order term would be at least {2 * ERRORS}; otherwise “fails”.",
    falsified_by=f"A mean change within {ERRORS} standard errors of 0 at the largest σ, with enough samples to detect "
    "the second-order term.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"samples": "number of noise samples"},
    least={"keys": 2, "samples": 100},
)
