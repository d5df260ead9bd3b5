from __future__ import annotations

from typing import Any

import pytest

from glassformer.decoding import Stopping, beam_search, generate_ids, generate_steps, stream_ids
from glassformer.decoding.prepare import prepare, session_of
from glassformer.errors import ConfigError, GlassError, InputError
from glassformer.models import Decoder, Seq2Seq, ViT, vit


def test_limits(plain: Decoder, translator: Seq2Seq) -> None:
    """All the room of the context, unless a number is given."""
    prompts = [[1, 2, 3], [4]]
    assert prepare(plain, prompts, Stopping(), ()).limits == [13, 15]
    assert prepare(plain, prompts, Stopping(max_new_tokens=5), ()).limits == [5, 5]
    plan = prepare(translator, prompts, Stopping(), ())
    assert plan.limits == [511, 511]
    assert plan.ends == (translator.config.end,)
    assert prepare(translator, prompts, Stopping(ends=()), ()).ends == ()


def test_a_speaker_is_itself(plain: Decoder) -> None:
    session = plain.session(ends=(3,))
    assert session_of(session) is session
    assert prepare(session, [[1]], Stopping(), ()).ends == (3,)


@pytest.mark.parametrize(
    ("prompt", "stopping", "banned", "kind", "message"),
    [
        (list(range(12)) * 3, {}, (), InputError, "a prompt of 36 tokens exceeds the model's context of 16"),
        ([1] * 16, {}, (), InputError, "16 tokens fill the model's context of 16: shorten the prompt"),
        ([1] * 4, {"max_new_tokens": 13}, (), InputError, "4 tokens and 13 new ones exceed .* 16: ask for at most 12"),
        ([1] * 4, {"min_new_tokens": 13}, (), InputError, "4 tokens and 13 new ones exceed"),
        ([], {}, (), InputError, "a prompt is empty"),
        ([1], {"ends": (12,)}, (), ConfigError, "token 12 is outside the vocabulary of 12"),
        ([1], {}, (40,), ConfigError, "token 40 is outside the vocabulary of 12"),
        ([1], {}, tuple(range(12)), ConfigError, "all 12 tokens are banned: leave at least one"),
        ([1], {"ends": (0,), "min_new_tokens": 1}, tuple(range(1, 12)), ConfigError, "all 12 tokens are banned"),
    ],
)
def test_what_cannot_end_well_does_not_begin(
    plain: Decoder, prompt: Any, stopping: Any, banned: Any, kind: type[GlassError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        prepare(plain, [[1], prompt], Stopping(**stopping), banned)


def test_errors_come_before_any_work(plain: Decoder) -> None:
    """Also from iterators, whose first token nobody has asked for yet."""
    work: list[int] = []
    hook = plain.decoder.register_forward_hook(lambda *_: work.append(1))
    far = Stopping(max_new_tokens=100)
    for begin in (
        lambda: generate_ids(plain, [[1]], stopping=far),
        lambda: stream_ids(plain, [1], stopping=far),
        lambda: generate_steps(plain, [[1]], stopping=far),
        lambda: beam_search(plain, [[1]], num_beams=2, stopping=far),
    ):
        with pytest.raises(InputError, match="1 tokens and 100 new ones exceed the model's context of 16"):
            begin()
    hook.remove()
    assert not work


def test_who_does_not_speak() -> None:
    with pytest.raises(ConfigError, match="a ViT does not generate tokens: give a model with session"):
        generate_ids(ViT(vit.tiny()), [[1]])
