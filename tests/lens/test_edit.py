from __future__ import annotations

import pytest
import torch

from glassformer.errors import InputError, ShapeError
from glassformer.lens import at_heads, edit, freeze, patch, replace, trace, zero, zero_head
from glassformer.models import Decoder, decoder

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])
OTHER = torch.tensor([[3, 1, 4, 7, 5, 9, 2]])


@pytest.fixture
def model() -> Decoder:
    return Decoder(decoder.tiny(), seed=5).double().eval()


@pytest.mark.parametrize("symbol", ["Q", "K", "V", "S", "A", "H", "O"])
def test_an_identity_edit_changes_nothing_and_a_real_one_does(model: Decoder, symbol: str) -> None:
    before = model(TOKENS)
    with edit(model, f"decoder.0.attention.{symbol}", lambda x: x):
        torch.testing.assert_close(model(TOKENS), before, rtol=1e-12, atol=1e-12)
    with edit(model, f"decoder.0.attention.{symbol}", lambda x: x * torch.linspace(0.5, 2.0, x.shape[-1])):
        assert (model(TOKENS) - before).abs().max() > 1e-6
    assert torch.equal(model(TOKENS), before)  # bit for bit


def test_leaving_by_an_error_leaves_the_model_as_it_was(model: Decoder) -> None:
    before = model(TOKENS)
    state = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(RuntimeError, match="planned"), edit(model, "decoder.*.attention.beta", 3.0):
        raise RuntimeError("planned")
    assert torch.equal(model(TOKENS), before)
    assert all(torch.equal(weight, state[name]) for name, weight in model.state_dict().items())


def test_a_head_that_looks_at_nothing_says_nothing(model: Decoder) -> None:
    with edit(model, "decoder.1.attention.A", zero_head(1)), trace(model, "decoder.1.attention.H") as run:
        model(TOKENS)
    H = run["decoder.1.attention.H"]
    assert (H[:, 1] == 0).all()
    assert (H[:, 0] != 0).all()


def test_patching_every_residual_of_another_run_gives_its_answer(model: Decoder) -> None:
    with trace(model, "decoder.0.O") as run:
        wanted = model(OTHER)
    with edit(model, "decoder.0.O", patch(run, "decoder.0.O")):
        torch.testing.assert_close(model(TOKENS), wanted)


def test_patching_one_head(model: Decoder) -> None:
    with trace(model, "decoder.1.attention.H") as run:
        model(OTHER)
    path = "decoder.1.attention.H"
    with edit(model, path, patch(run, path, 0)), trace(model, path) as now:
        model(TOKENS)
    assert torch.equal(now["*.H"][:, 0], run["*.H"][:, 0])
    assert not torch.equal(now["*.H"][:, 1], run["*.H"][:, 1])


def test_a_frozen_pattern_stays_whatever_the_scores_say(model: Decoder) -> None:
    with trace(model, "*.A") as run:
        model(OTHER)
    path = "decoder.1.attention.A"
    with edit(model, path, freeze(run, path)), trace(model, path) as now:
        model(TOKENS).square().sum().backward()
    torch.testing.assert_close(now[path], run[path])
    assert model.decoder.get_submodule("1").attention.WQ.weight.grad is None  # no gradient through a frozen pattern
    assert model.decoder.get_submodule("1").attention.WV.weight.grad is not None


def test_gradients_flow_through_an_edit(model: Decoder) -> None:
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    tilt = torch.linspace(-1, 1, 7, dtype=torch.float64)

    with edit(model, "decoder.0.attention.S", lambda S: S + tilt * scale):
        out = model(TOKENS).square().sum()
    (slope,) = torch.autograd.grad(out, scale)
    eps = 1e-6
    with torch.no_grad(), edit(model, "decoder.0.attention.S", lambda S: S + tilt * (1 + eps)):
        up = model(TOKENS).square().sum()
    with torch.no_grad(), edit(model, "decoder.0.attention.S", lambda S: S + tilt * (1 - eps)):
        down = model(TOKENS).square().sum()
    torch.testing.assert_close(slope, (up - down) / (2 * eps), rtol=1e-4, atol=1e-9)


def test_beta_is_a_dial_with_both_limits(model: Decoder) -> None:
    with torch.no_grad(), edit(model, "decoder.0.attention.beta", 0), trace(model, "*.0.attention.A") as run:
        model(TOKENS)
    torch.testing.assert_close(run["*.A"][0, 0, 4, :5], torch.full((5,), 0.2, dtype=torch.float64))
    with torch.no_grad(), edit(model, "decoder.0.attention.beta", 1e6), trace(model, "*.0.attention.A") as run:
        model(TOKENS)
    torch.testing.assert_close(run["*.A"].amax(-1), torch.ones(1, 2, 7, dtype=torch.float64))


def test_numbers_and_tensors_are_edits_too(model: Decoder) -> None:
    last, first = "decoder.1.O", "decoder.embed.X"
    with edit(model, "decoder.*.attention.O", 0), edit(model, "*.ffn.O", zero()), trace(model, last, first) as run:
        model(TOKENS)
    torch.testing.assert_close(run[last], run[first])
    value = torch.arange(16.0)
    with edit(model, "decoder.1.O", replace(value)), trace(model, "decoder.1.O") as run:
        model(TOKENS)
    assert torch.equal(run["decoder.1.O"][0, 3], value.double())


def test_mistakes(model: Decoder) -> None:
    with pytest.raises(ShapeError, match=r"an edit of decoder.0.attention.A \(b h t s\) made \(1, 2, 7, 7\) into"):  # noqa: SIM117
        with edit(model, "decoder.0.attention.A", lambda A: A[:, :1]):
            model(TOKENS)
    with pytest.raises(InputError, match="there is no head 5: heads are 0 to 1"):  # noqa: SIM117
        with edit(model, "decoder.0.attention.A", at_heads(torch.zeros_like, 5)):
            model(TOKENS)
    with pytest.raises(InputError, match="no quantity is called"), edit(model, "decoder.7.attention.A", 0):
        pass
    with pytest.raises(InputError, match="cannot become"), edit(model, "decoder.0.attention.beta", torch.zeros_like):
        pass


PATH = "decoder.0.attention.H"


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda H: None, InputError, f"an edit of {PATH} gave NoneType: return the tensor"),
        (torch.zeros(3, 3), ShapeError, r"the quantity is (1, 2, 7, 8) here and (3, 3) in the edit"),
        ("zero", InputError, f"{PATH} cannot become 'zero': give a function"),
        (None, InputError, f"{PATH} cannot become None"),
        (zero_head(-1), InputError, "there is no head -1: heads are 0 to 1"),
    ],
)
def test_what_is_no_edit(model: Decoder, refused, change: object, kind: type, text: str) -> None:
    def tried() -> None:
        with edit(model, PATH, change):
            model(TOKENS)

    refused(kind, text, tried)


def test_a_patch_of_other_sizes_names_both_places(model: Decoder, refused) -> None:
    with trace(model, PATH) as run:
        model(TOKENS[:, :3])

    def tried() -> None:
        with edit(model, PATH, patch(run, PATH)):
            model(TOKENS)

    text = f"the quantity is (1, 2, 7, 8) here and (1, 2, 3, 8) in the run it is patched from, at {PATH}"
    refused(ShapeError, text, tried)


def test_what_has_no_taps_is_refused(refused) -> None:
    def tried(model: object) -> None:
        with edit(model, "A", 0.0):
            pass

    refused(InputError, "Linear has no taps: give a model made of", lambda: tried(torch.nn.Linear(2, 2)))
    refused(InputError, "str has no taps: give a model made of", lambda: tried("model"))
