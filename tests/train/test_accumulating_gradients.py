"""Oracle: the step written out by hand with torch's own parts."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.nn.functional import cross_entropy

from glassformer.errors import InputError
from glassformer.train import Batch, TrainArgs
from glassformer.train.batches import jobs
from glassformer.train.distributed import SingleProcess
from glassformer.train.objectives.image_models import Size, build_image_model
from glassformer.train.step import Stepper, StepResult


def take(objective: object, count: int) -> list:  # type: ignore[type-arg]
    stream = jobs(objective, 0, 0, 0)  # type: ignore[arg-type]
    return [(job, objective.batch(job.rows, job.seed)) for job, _ in zip(stream, range(count), strict=False)]  # type: ignore[attr-defined]


def update(child: ModuleType, plan: TrainArgs, objective: object, folder: Path | None = None) -> Stepper:
    return Stepper(child.model(), objective, plan, SingleProcess(), folder)  # type: ignore[arg-type]


def test_a_step_is_the_mean_over_all_its_batches(child: ModuleType) -> None:
    """Batches of 25 and 1: each image counts the same, whichever batch it is in."""
    objective = child.Made(26, 25)
    args = replace(child.ARGS, warmup=0, grad_clip=0.0, weight_decay=0.0)
    ours, model = update(child, args, objective), child.model()
    stepped = ours.step(0, take(objective, 2))
    loss = cross_entropy(model(objective.X), objective.y)
    loss.backward()
    expected = torch.cat([weight.grad.flatten() for weight in model.parameters()])
    assert stepped.mean == pytest.approx(float(loss.detach()), rel=1e-12)
    assert stepped.grad_norm == pytest.approx(float(expected.norm()), rel=1e-10)
    assert (stepped.predictions, stepped.rows, stepped.lr) == (26.0, 26.0, args.lr)
    torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.0, foreach=False).step()
    for one, two in zip(ours.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-7, atol=1e-9)


def test_batches_put_together_are_one_batch(child: ModuleType) -> None:
    whole, parts = child.Made(24, 24), child.Made(24, 6)
    one, four = update(child, child.ARGS, whole), update(child, child.ARGS, parts)
    for step in range(3):
        a, b = one.step(step, take(whole, 1)), four.step(step, take(parts, 4))
        assert a.mean == pytest.approx(b.mean, rel=1e-10)
    for x, y in zip(one.model.parameters(), four.model.parameters(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-9)


def test_dropout_depends_on_the_step_and_on_nothing_else(child: ModuleType) -> None:
    objective, losses = child.Made(), []
    for disturbed in (False, True):
        ours = Stepper(child.model(dropout=0.5), objective, child.ARGS, SingleProcess(), None)
        if disturbed:
            torch.rand(100)
        losses.append(ours.step(3, take(objective, 1)).mean)
    assert losses[0] == losses[1]
    other = Stepper(child.model(dropout=0.5), objective, child.ARGS, SingleProcess(), None)
    assert other.step(4, take(objective, 1)).mean != losses[0]


def test_a_step_without_rows_passes(child: ModuleType) -> None:
    objective = child.Made()
    ours, before = update(child, child.ARGS, objective), child.model()
    job = take(objective, 1)[0][0]
    stepped = ours.step(0, [(job, None), (job, None)])
    assert child.same(ours.model, before)
    assert stepped.predictions == 0
    assert math.isnan(stepped.mean)
    half = ours.step(0, [(job, None), take(objective, 1)[0]])
    assert half.predictions == 25


class Breaks:
    """A objective whose loss, or whose gradient, is no number in its second batch."""

    def __init__(self, objective: object, what: str) -> None:
        self.objective, self.what = objective, what

    def __getattr__(self, name: str) -> object:
        return getattr(self.objective, name)

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        loss: torch.Tensor = self.objective.loss(model, batch)  # type: ignore[attr-defined]
        if not torch.equal(batch["y"], self.batch(self.epoch(0)[1], 0)["y"]):  # type: ignore[operator]
            return loss
        # √0 is 0 and its slope infinite
        return loss * math.inf if self.what == "loss" else loss + (loss - loss).sqrt()


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_what_is_no_number_stops_before_it_reaches_the_weights(child: ModuleType, tmp_path: Path, what: str) -> None:
    objective = Breaks(child.Made(), what)
    ours = update(child, child.ARGS, objective, tmp_path)
    ours.step(0, take(objective, 1))
    before = {name: tensor.detach().clone() for name, tensor in ours.model.state_dict().items()}
    with pytest.raises(InputError, match=f"the {what} of step 2 is (inf|nan); its batch"):
        ours.step(1, take(objective, 2))
    assert all(torch.equal(tensor, before[name]) for name, tensor in ours.model.state_dict().items())
    assert (tmp_path / "broken-step-00000002.safetensors").exists()


@pytest.mark.parametrize("kind", ["vit", "hybrid", "cnn", "mlp"])
def test_a_model_that_looks_at_its_own_output_leaves_it_to_the_loss(
    child: ModuleType, tmp_path: Path, kind: str
) -> None:
    """Every model of ours refuses to give a NaN: in training, the batch that made it is worth more than that."""
    objective = child.Made()
    objective.X[objective.epoch(0)[0][3]] = math.nan
    objective.loss = lambda model, batch: cross_entropy(model.class_logits(batch["X"]), batch["y"], reduction="sum")
    model = build_image_model(kind, (1, 8, 8), 4, Size(width=8, depth=1, heads=2), patch=4, seed=0).double()
    ours = Stepper(model, objective, child.ARGS, SingleProcess(), tmp_path)
    with pytest.raises(InputError, match="the loss of step 1 is nan; its batch is saved in "):
        ours.step(0, take(objective, 1))
    assert (tmp_path / "broken-step-00000001.safetensors").exists()


def test_means() -> None:
    assert StepResult(6.0, 4.0, 4.0, 0.1, 1.0).mean == 1.5
