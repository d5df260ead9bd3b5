"""What the five tasks measure: cost, reach, data, streaming and inductive bias."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from glassformer.core import cost as formulas
from glassformer.errors import InputError
from glassformer.lab.comparison import cost
from glassformer.lab.comparison.data import require_datasets, splits
from glassformer.lab.comparison.networks import ARCHITECTURES, LastTokenNetwork, build_layer, build_sequence_network
from glassformer.lab.comparison.plan import ComparisonPlan, full, quick
from glassformer.lab.comparison.reach import gradient
from glassformer.lab.comparison.results import Results, kept
from glassformer.lab.comparison.runner import carry_out
from glassformer.lab.comparison.streaming import WINDOWED
from glassformer.lab.comparison.tasks import units


@pytest.mark.parametrize("architecture", ["CNN", "MLP"])
def test_the_formula_counts_what_torch_counts(architecture: str) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    each = build_layer(architecture, 32, seed=0)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        each.run(torch.randn(1, 8, 32))
    assert counter.get_total_flops() == each.count(8).flops


def test_only_attention_multiplies_more_than_4nd2() -> None:
    n, d = 64, 64
    counts = {name: build_layer(name, d, seed=0).count(n).multiplications for name in ARCHITECTURES}
    assert counts.pop("Transformer") == formulas.self_attention(n, d).multiplications == 4 * n * d**2 + 2 * n**2 * d
    for count in counts.values():
        assert count == pytest.approx(4 * n * d**2, rel=0.03)


def test_half_open_gates_explain_the_gradient_of_an_untrained_gru() -> None:
    """h' = z·h + (1 − z)·n with z ≈ r ≈ ½: a step keeps about ½ through the gate and ¼ through the candidate."""

    def kept_per_step(architecture: str) -> float:
        first, last = (
            gradient(build_sequence_network(architecture, 4_000, vocabulary=17, length=n + 1, window=8, seed=0), n, 0)
            for n in (16, 48)
        )
        return float((last / first) ** (1 / 32))

    assert 0.7 < kept_per_step("GRU") < 0.78
    assert 0.85 < kept_per_step("RNN") < 1  # orthogonal weights, less what tanh takes
    assert 0.85 < kept_per_step("LSTM") < 1  # σ(1) = 0.73 through the forget gate, up to ¼ through the others


@pytest.mark.slow
def test_times_memory_and_threads_of_layers(results: Results) -> None:
    found = results.select("cost", "layer", n=16, d=32)
    assert len(found) == 2
    for unit in found:
        assert all(unit[kind][name] > 0 for kind in ("forward", "both") for name in ARCHITECTURES)
        assert set(unit["halves"]) == {cost.SQUARE, cost.LINEAR}
    (memory,) = results.select("cost", "memory", n=32, d=32)
    assert min(memory["peak"].values()) >= 4 * 32 * 32  # at least the output
    assert all(len(times) == 2 for times in results.select("cost", "threads")[0]["both"].values())


def test_large_layers_are_timed_once_and_small_ones_often() -> None:
    plan = full()
    assert cost._turns(plan, 2048, 512) == (1, 0)
    assert cost._turns(plan, 64, 64)[0] > 1
    big, small = (next(u for u in units(plan) if u.settings == {"n": n, "d": d}) for n, d in ((1024, 256), (64, 64)))
    assert cost.weight(plan, big) > 10 * cost.weight(plan, small)


def test_peak_memory_is_what_is_held_at_once() -> None:
    megabyte = 1000 * 250 * 4
    make = lambda: torch.zeros(1000, 250)

    def one_after_the_other() -> None:
        for _ in range(3):
            make()

    def together() -> None:
        held = [make() for _ in range(3)]
        assert len(held) == 3

    assert cost.peak_memory(make) == megabyte
    assert cost.peak_memory(one_after_the_other) == megabyte
    assert cost.peak_memory(together) == 3 * megabyte
    X = torch.randn(1000, 250)
    assert cost.peak_memory(lambda: X.sum()) < 1000  # X was there before


def test_peak_memory_of_explicit_and_fused_attention() -> None:
    Q = torch.randn(1, 1, 512, 8)
    explicit = cost.peak_memory(lambda: (Q @ Q.mT).softmax(-1) @ Q)
    fused = cost.peak_memory(lambda: torch.nn.functional.scaled_dot_product_attention(Q, Q, Q))
    assert explicit >= 2 * 512 * 512 * 4
    assert fused < 512 * 512 * 4


def network(name: str, distance: int) -> LastTokenNetwork:
    return build_sequence_network(
        name, 4_000, vocabulary=17, length=distance + 1, window=8, seed=0, positions="sinusoidal"
    )


def test_the_gradient_is_0_outside_the_receptive_field() -> None:
    assert gradient(network("MLP", 7), 7, 0) > 0
    assert gradient(network("MLP", 8), 8, 0) == 0
    assert gradient(network("CNN", 252), 252, 0) > 0  # six dilated blocks: 253 tokens
    assert gradient(network("CNN", 253), 253, 0) == 0


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_the_gradient_of_a_recurrent_network_fades(name: str) -> None:
    assert gradient(network(name, 64), 64, 0) < gradient(network(name, 2), 2, 0)


def test_the_gradient_of_attention_falls_no_faster_than_the_weights() -> None:
    """Before training each of n tokens has about 1/n of the weight."""
    near, far = gradient(network("Transformer", 8), 8, 0), gradient(network("Transformer", 128), 128, 0)
    assert far > near / 128


def test_every_architecture_is_searched_with_the_same_rates(results: Results) -> None:
    for task, architectures in (("reach", ARCHITECTURES), ("data", ("Transformer", "CNN"))):
        for name in architectures:
            (found,) = results.select(task, "search", architecture=name)
            assert [each["lr"] for each in found["trials"]] == [1e-3, 1e-2]
            best = max(found["trials"], key=lambda each: (each["accuracy"], -each["loss"]))
            assert found["lr"] == best["lr"]
            part = "recall" if task == "reach" else "images"
            assert {unit["lr"] for unit in results.select(task, part, architecture=name)} == {found["lr"]}


def test_recall_and_longer_sequences(results: Results) -> None:
    for unit in results.select("reach", "recall", distance=4):
        assert 0 <= unit["accuracy"] <= 1
        assert unit["parameters"] == pytest.approx(2_000, rel=0.2)
    for unit in results.select("reach", "longer", architecture="LSTM"):
        assert set(unit["accuracy"]) == {"8", "16"}


def test_larger_training_sets_contain_the_smaller_ones(plan: ComparisonPlan) -> None:
    few, more, other = (
        splits("fashion-mnist", True, n, seed, validation=8, tests=16) for n, seed in ((8, 0), (16, 0), (8, 1))
    )
    assert torch.equal(more.train[0][:8], few.train[0])
    assert torch.equal(more.train[1][:8], few.train[1])
    assert few.train[0].shape == (8, 1, 28, 28)
    assert not torch.equal(other.train[0], few.train[0])
    assert torch.equal(more.test[0], few.test[0])
    assert torch.equal(other.test[0], few.test[0])


def test_validation_images_are_not_trained_on() -> None:
    parts = splits("fashion-mnist", True, 3_000, 0, validation=500)
    seen = {image.numpy().tobytes() for image in parts.train[0]}
    assert not any(image.numpy().tobytes() in seen for image in parts.validation[0][:100])


def test_the_quick_plan_needs_no_download() -> None:
    require_datasets(quick())


def test_a_dataset_that_is_too_small_is_refused_before_anything_is_measured(
    plan: ComparisonPlan, tmp_path: Path
) -> None:
    large = replace(plan, data=replace(plan.data, sizes=(8, 10**6)))
    with pytest.raises(InputError, match="glassformer data fetch fashion-mnist"):
        carry_out(large, tmp_path)
    assert not list(tmp_path.rglob("*.json"))
    require_datasets(replace(large, tasks=("cost",)))  # needs no images


def test_a_convolution_commutes_with_its_stride_and_patches_do_not(results: Results) -> None:
    for unit in results.select("bias", "features", architecture="CNN"):
        assert unit["stride"] == 4
        assert unit["one stride"] < 1e-9
        assert unit["one pixel"] > 1e-3
    for unit in results.select("bias", "features", architecture="Transformer"):
        assert unit["one stride"] > 1e-3


def test_accuracy_on_shifted_images_after_both_trainings(results: Results) -> None:
    for trained in ("centred", "shifted"):
        for unit in results.select("bias", "images", trained=trained):
            assert set(unit["accuracy"]) == {"0", "1", "4"}


@pytest.mark.parametrize("name", [*ARCHITECTURES, WINDOWED])
@torch.inference_mode()
def test_a_stream_answers_as_the_whole_sequence_does(name: str) -> None:
    attends = 8 if name == WINDOWED else None
    net = build_sequence_network(
        name.partition(",")[0], 4_000, vocabulary=17, length=40, window=8, seed=0, positions="rotary", attends=attends
    ).eval()
    X = torch.randint(0, 17, (1, 30))
    step, _ = net.stream(X, room=2)
    longer = X if name == "MLP" else torch.cat([X, X[:, -1:]], 1)  # an MLP reads its window again
    torch.testing.assert_close(step().flatten(), net(longer).flatten(), atol=1e-4, rtol=1e-4)


def test_only_a_full_cache_grows(results: Results) -> None:
    short, long = results.plan.streaming.after
    for name in (*ARCHITECTURES, WINDOWED):
        assert (kept(results, name, long) > kept(results, name, short)) == (name == "Transformer"), name
