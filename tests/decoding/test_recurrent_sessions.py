from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer.decoding import Sampling, Stopping, beam_search, generate_ids
from glassformer.errors import ConfigError, InputError
from glassformer.models import convolutional_sequence, recurrent, recurrent_seq2seq
from glassformer.models.convolutional_sequence import ConvNet1d
from glassformer.models.recurrent import Recurrent
from glassformer.models.recurrent_seq2seq import RecurrentSeq2Seq
from glassformer.models.sequence_io import Frames, Tokens

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
    with pytest.raises(ConfigError, match="answers 3 classes: only a model that answers the tokens it reads"):
        Recurrent(recurrent.tiny(WORDS, 3)).session()
    model = RecurrentSeq2Seq(recurrent_seq2seq.tiny(Frames(features=3), 12))
    with pytest.raises(InputError, match=r"a source of frames has shape \(3,\): give \(frames, features\)"):
        model.session(start=(0,), ends=(1,)).prefix(torch.zeros(3))
    with pytest.raises(ConfigError, match="nothing but an end token would end the answer"):
        generate_ids(Recurrent(recurrent.tiny(WORDS, 12)), [[1]])
