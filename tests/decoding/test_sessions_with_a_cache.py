"""Sessions of decoders, encoder-decoders and recurrent models equal the model run on the whole sequence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.decoding import Sampling, Stopping, beam_search, generate_ids
from glassformer.decoding.prepare import as_prompts, as_session
from glassformer.errors import ConfigError, InputError
from glassformer.models import (
    Decoder,
    Seq2Seq,
    Whisper,
    convolutional_sequence,
    decoder,
    recurrent,
    recurrent_seq2seq,
    seq2seq,
    whisper,
)
from glassformer.models.convolutional_sequence import ConvNet1d
from glassformer.models.recurrent import Recurrent
from glassformer.models.recurrent_seq2seq import RecurrentSeq2Seq
from glassformer.models.sequence_io import Frames, Tokens
from glassformer.models.sessions import MemorySession, Session, inference, pad_left

prompts_of = st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=6), min_size=1, max_size=3)


def alone(model: Any, prompt: list[int], said: list[int]) -> torch.Tensor:
    """The logits after all of it, by one plain pass without cache, padding or company."""
    with torch.no_grad():
        if isinstance(model, Decoder):
            return model(torch.tensor([prompt + said]))[0, -1]
        return model(torch.tensor([prompt]), torch.tensor([[model.config.start, *said]]))[0, -1]


@pytest.mark.variants(3)
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("name", ["plain", "translator", "modern", "modern_translator"])
def test_a_session_equals_one_plain_pass(name: str, cached: bool, lively: Any, request: Any) -> None:
    """Primed with unequal prompts, stepped, reordered, some rows left out and some doubled: always the same logits."""
    if name.startswith("modern"):
        made = (
            Decoder(decoder.modern(vocabulary=12, width=8, depth=1, count=4, length=24, kv_heads=2, hidden=12))
            if name == "modern"
            else Seq2Seq(seq2seq.modern(vocabulary=12, width=8, depth=1, count=2, hidden=12))
        )
        model = lively(made)
    else:
        model = request.getfixturevalue(name)

    @settings(max_examples=5)
    @given(prompts_of, st.data())
    def check(prompts: list[list[int]], data: st.DataObject) -> None:
        session = model.session(cached=cached)
        assert isinstance(session, Session)
        logits = session.prefill(as_prompts(prompts), 3)
        rows = [(prompt, list[int]()) for prompt in prompts]
        for _ in range(3):
            for row, (prompt, said) in zip(logits, rows, strict=True):
                torch.testing.assert_close(row, alone(model, prompt, said), rtol=1e-9, atol=1e-9)
            order = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=4))
            tokens = data.draw(st.lists(st.integers(0, 11), min_size=len(order), max_size=len(order)))
            session.reorder(torch.tensor(order))
            logits = session.step(torch.tensor(tokens))
            rows = [(rows[i][0], [*rows[i][1], token]) for i, token in zip(order, tokens, strict=True)]

    check()


@pytest.mark.parametrize("cached", [True, False])
def test_sounds_are_sources(cached: bool, lively: Any) -> None:
    """Unequal ones too: each row is what it would be alone, stepped and reordered."""
    model = lively(Whisper(whisper.tiny()))
    generator = torch.Generator().manual_seed(0)
    sounds = [torch.randn(t, 6, generator=generator, dtype=torch.float64) for t in (20, 7, 12)]
    session = as_session(model) if cached else model.session(cached=False)
    assert isinstance(session, MemorySession)
    assert (session.vocabulary, session.context, session.ends) == (20, 12, (1,))
    logits, rows = session.prefill(sounds, 3), [0, 1, 2]
    said: list[list[int]] = [[], [], []]
    for order in ([2, 1, 1], [0, 2]):
        with torch.no_grad():
            for row, i, words in zip(logits, rows, said, strict=True):
                alone_row = model(sounds[i][None], torch.tensor([[2, *words]]))[0, -1]
                torch.testing.assert_close(row, alone_row, rtol=1e-9, atol=1e-9)
        session.reorder(torch.tensor(order))
        rows, said = [rows[i] for i in order], [[*said[i], 5] for i in order]
        logits = session.step(torch.full((len(order),), 5))


@pytest.mark.parametrize(
    "wrong", [torch.zeros(21, 6), torch.zeros(0, 6), torch.zeros(5, 7), torch.zeros(5), torch.zeros(5, 6).long()]
)
def test_sounds_that_do_not_fit(wrong: torch.Tensor) -> None:
    session = Whisper(whisper.tiny()).session()
    with pytest.raises(InputError, match="1 to 20 frames of 6 bands"):
        session.prefix(wrong)


def test_several_start_tokens(translator: Seq2Seq) -> None:
    session = translator.session(start=(1, 7, 3))
    logits = session.prefill(as_prompts([[4, 5]]), 2)
    with torch.no_grad():
        expected = translator(torch.tensor([[4, 5]]), torch.tensor([[1, 7, 3]]))[:, -1]
    torch.testing.assert_close(logits, expected)
    assert session.prefix(torch.tensor([4, 5])).tolist() == [1, 7, 3]


def test_the_memory_is_projected_once(translator: Seq2Seq) -> None:
    calls = []
    projection = translator.decoder.get_submodule("0.cross.WK")
    handle = projection.register_forward_hook(lambda *_: calls.append(1))
    session = translator.session()
    session.prefill(as_prompts([[4, 5]]), 4)
    for token in range(4):
        session.step(torch.tensor([token]))
    handle.remove()
    assert len(calls) == 1


def test_the_prompt_is_read_once_and_only_its_last_word_is_looked_up(plain: Decoder) -> None:
    widths, words = [], []
    hooks = [
        plain.decoder.get_submodule("0").register_forward_hook(lambda m, args, out: widths.append(out.shape[1])),
        plain.word_head.register_forward_hook(lambda m, args, out: words.append(out.shape[1])),
    ]
    session = plain.session()
    session.prefill(as_prompts([[4, 5, 6, 7]]), 2)
    session.step(torch.tensor([1]))
    for hook in hooks:
        hook.remove()
    assert (widths, words) == ([4, 1], [1, 1])


def test_a_model_in_training_speaks_without_dropout_and_is_left_as_it_was(lively: Any) -> None:
    model = lively(Decoder(decoder.plain(vocabulary=12, width=8, depth=2, count=2, length=24, dropout=0.5)))
    model.train()
    model.decoder.get_submodule("1").eval()
    before = [module.training for module in model.modules()]
    logits = model.session().prefill(as_prompts([[1, 2]]), 1)
    assert [module.training for module in model.modules()] == before
    assert not logits.requires_grad
    torch.testing.assert_close(logits, model.eval().session().prefill(as_prompts([[1, 2]]), 1))


def test_quiet_even_when_something_breaks() -> None:
    model = Decoder(decoder.tiny()).train()

    def broken() -> None:
        with inference(model):
            assert not model.decoder.training
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert model.decoder.training
    assert torch.is_grad_enabled()


def test_padding_on_the_left() -> None:
    tokens, real = pad_left([torch.tensor([1, 2, 3]), torch.tensor([4])], torch.device("cpu"))
    assert tokens.tolist() == [[1, 2, 3], [0, 0, 4]]
    assert real is not None
    assert real.tolist() == [[True] * 3, [False, False, True]]
    assert pad_left([torch.tensor([1, 2])] * 2, torch.device("cpu"))[1] is None


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "a prompt is empty: begin with at least one token"),
        ([1.5], "a prompt is float32"),
        ([[1, 2]], r"of shape \(1, 2\)"),
        (list(range(17)), "a prompt of 17 tokens exceeds the model's context of 16: shorten it"),
    ],
)
def test_bad_prompts(plain: Decoder, prompt: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plain.session().prefix(torch.as_tensor(prompt))


def test_prompts_are_lists_of_ids() -> None:
    with pytest.raises(InputError, match="a prompt is the text 'hello': turn it into token ids"):
        as_prompts(["hello"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="a prompt is the single number 3: give a list of prompts"):
        as_prompts([3, 4])  # type: ignore[list-item]


WORDS = Tokens(vocabulary=12)
PROMPTS = [[1, 2, 3, 4], [5], [6, 7]]


@pytest.fixture(params=["lstm", "gru", "convolution"])
def language_model(request: Any, lively: Any) -> Any:
    if request.param == "convolution":
        return lively(ConvNet1d(convolutional_sequence.tiny(WORDS, 12)))
    return lively(Recurrent(recurrent.tiny(WORDS, 12, cell=request.param)))


def test_stepwise_logits_equal_one_pass(language_model: Any) -> None:
    answers = generate_ids(language_model, PROMPTS, stopping=Stopping(max_new_tokens=5))
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        tokens = list(prompt)
        for _ in range(5):
            with torch.no_grad():
                tokens.append(int(language_model(torch.tensor([tokens]))[0, -1].argmax()))
        assert answer.tokens == tuple(tokens[len(prompt) :])


def test_language_models_in_company_and_alone(language_model: Any) -> None:
    how: Any = {"sampling": Sampling(), "stopping": Stopping(max_new_tokens=6, ends=(3,))}
    together = generate_ids(language_model, PROMPTS, seed=4, **how)
    assert [a.tokens for a in together] == [
        generate_ids(language_model, [p], seed=4 + i, **how)[0].tokens for i, p in enumerate(PROMPTS)
    ]


def test_beams_of_states(language_model: Any) -> None:
    """The score of every answer is what the whole pass gives its tokens."""
    found = beam_search(language_model, PROMPTS, num_beams=3, length_penalty=0.0, stopping=Stopping(max_new_tokens=4))
    for prompt, answers in zip(PROMPTS, found, strict=True):
        for answer in answers:
            with torch.no_grad():
                logits = language_model(torch.tensor([prompt + list(answer.tokens)]))[0]
            logprobs = logits[len(prompt) - 1 : -1].log_softmax(-1)
            total = logprobs.gather(1, torch.tensor(answer.tokens)[:, None]).sum()
            assert answer.score == pytest.approx(float(total), abs=1e-9)


@pytest.mark.parametrize("attention", [True, False])
@pytest.mark.parametrize("reads", [WORDS, Frames(features=3)])
def test_an_encoder_decoder(reads: Tokens | Frames, attention: bool, lively: Any) -> None:
    model = lively(RecurrentSeq2Seq(recurrent_seq2seq.tiny(reads, 12, attention=attention)))
    generator = torch.Generator().manual_seed(0)
    sources: Any = PROMPTS
    if isinstance(reads, Frames):
        sources = [torch.randn(n, 3, generator=generator, dtype=torch.float64) for n in (4, 1, 2)]
    session = lambda: model.session(start=(0,), ends=(11,))
    answers = generate_ids(session(), sources, stopping=Stopping(max_new_tokens=5, ends=()))
    best = beam_search(session(), sources, num_beams=3, length_penalty=0.0, stopping=Stopping(max_new_tokens=5))
    for source, answer, beams in zip(sources, answers, best, strict=True):
        X = torch.as_tensor(source)[None]
        said = [0]
        for _ in range(5):
            with torch.no_grad():
                said.append(int(model(X, torch.tensor([said]))[0, -1].argmax()))
        assert answer.tokens == tuple(said[1:])
        for found in beams:
            with torch.no_grad():
                logprobs = model(X, torch.tensor([[0, *found.tokens[:-1]]]))[0].log_softmax(-1)
            total = logprobs.gather(1, torch.tensor(found.tokens)[:, None]).sum()
            assert found.score == pytest.approx(float(total), abs=1e-9)


def test_what_cannot_speak() -> None:
    with pytest.raises(
        ConfigError, match="answers 3 classes: only a model that predicts the tokens it reads can generate"
    ):
        Recurrent(recurrent.tiny(WORDS, 3)).session()
    model = RecurrentSeq2Seq(recurrent_seq2seq.tiny(Frames(features=3), 12))
    with pytest.raises(InputError, match=r"a source of frames has shape \(3,\): give \(frames, features\)"):
        model.session(start=(0,), ends=(1,)).prefix(torch.zeros(3))
    with pytest.raises(ConfigError, match="nothing but an end token would end the answer"):
        generate_ids(Recurrent(recurrent.tiny(WORDS, 12)), [[1]])
