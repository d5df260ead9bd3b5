from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.bias import causal_lower_right

from glassformer.core import masks
from glassformer.errors import MaskError, ShapeError

sizes = st.integers(1, 12)


def table(mask: torch.Tensor) -> list[str]:
    return ["".join("x" if cell else "." for cell in row) for row in mask.tolist()]


@given(sizes, st.integers(0, 12))
def test_causal_is_aligned_at_the_last_key(t: int, cached: int) -> None:
    mask = masks.causal(t, t + cached)
    assert torch.equal(mask, torch.ones(t, t + cached).tril(cached).bool())
    assert torch.equal(mask, masks.causal(t, offset=cached))
    assert torch.equal(masks.causal(t), torch.ones(t, t).tril().bool())


def test_causal_equals_torch_lower_right() -> None:
    Q, K = torch.randn(1, 1, 3, 8), torch.randn(1, 1, 7, 8)
    theirs = torch.nn.functional.scaled_dot_product_attention(Q, K, K, attn_mask=causal_lower_right(3, 7))
    ours = torch.nn.functional.scaled_dot_product_attention(Q, K, K, attn_mask=masks.causal(3, 7))
    torch.testing.assert_close(ours, theirs)


@given(sizes, sizes, st.integers(0, 12))
def test_rows_of_a_static_cache_are_rows_of_the_whole(t: int, more: int, offset: int) -> None:
    """Keys past the last query (a cache of fixed length, not yet full) stay hidden."""
    n = offset + t + more
    assert torch.equal(masks.causal(t, n, offset=offset), masks.causal(n)[offset : offset + t])


def test_too_few_keys() -> None:
    with pytest.raises(ShapeError, match=r"5 queries over 3 keys would start at position -2: give at least"):
        masks.causal(5, 3)


def test_window_by_hand() -> None:
    assert table(masks.window(4, width=3, causal=False)) == ["xx..", "xxx.", ".xxx", "..xx"]
    assert table(masks.window(4, width=2, causal=True)) == ["x...", "xx..", ".xx.", "..xx"]
    assert table(masks.window(2, 4, width=2, causal=True)) == [".xx.", "..xx"]


@given(sizes, st.integers(0, 9), st.integers(1, 20))
def test_window_is_causal_and_past(t: int, offset: int, width: int) -> None:
    mask = masks.window(t, width=width, causal=True, offset=offset)
    counts = torch.arange(offset + 1, offset + t + 1).clamp(max=width)
    assert torch.equal(mask.sum(-1), counts)
    assert torch.equal(mask & masks.causal(t, offset=offset), mask)


def test_window_of_no_width_or_no_centre() -> None:
    with pytest.raises(MaskError, match="width must be at least 1, got 0"):
        masks.window(3, width=0, causal=True)
    with pytest.raises(MaskError, match=r"width 4 has no centre: choose an odd width \(3 or 5\), or a causal window"):
        masks.window(3, width=4, causal=False)


def test_chunked_by_hand() -> None:
    assert table(masks.chunked(5, chunk=2)) == ["xx...", "xx...", "xxxx.", "xxxx.", "xxxxx"]
    assert table(masks.chunked(5, chunk=2, left=1)) == ["xx...", "xx...", ".xxx.", ".xxx.", "...xx"]
    assert table(masks.chunked(5, chunk=2, left=0, right=1)) == ["xxx..", "xxx..", "..xxx", "..xxx", "....x"]
    assert table(masks.chunked(2, 5, chunk=2, left=1)) == [".xxx.", "...xx"]


def test_chunk_of_one_frame_is_a_causal_window() -> None:
    assert torch.equal(masks.chunked(7, chunk=1, left=2), masks.window(7, width=3, causal=True))
    assert torch.equal(masks.chunked(7, chunk=1), masks.causal(7))


@given(st.data(), st.integers(1, 20), st.integers(1, 5), st.none() | st.integers(0, 7), st.integers(0, 4))
def test_rows_made_alone_are_rows_of_the_whole(
    data: st.DataObject, n: int, chunk: int, left: int | None, right: int
) -> None:
    whole = masks.chunked(n, chunk=chunk, left=left, right=right)
    offset = data.draw(st.integers(0, n - 1))
    t = data.draw(st.integers(1, n - offset))
    start = data.draw(st.integers(0, offset))
    kinds = {"chunk": chunk, "left": left, "right": right, "offset": offset}
    assert torch.equal(masks.chunked(t, n, **kinds), whole[offset : offset + t])
    assert torch.equal(masks.chunked(t, n - start, start=start, **kinds), whole[offset : offset + t, start:])
    new = masks.chunked(t, start=start, **kinds)
    assert torch.equal(new, whole[offset : offset + t, start : offset + t])


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 7), st.integers(0, 4))
def test_a_chunk_sees_the_same_keys(n: int, chunk: int, left: int, right: int) -> None:
    for p, row in enumerate(masks.chunked(n, chunk=chunk, left=left, right=right).tolist()):
        c = p // chunk * chunk
        assert [j for j, seen in enumerate(row) if seen] == list(range(max(0, c - left), min(n, c + chunk + right)))


@pytest.mark.parametrize("wrong", [{"chunk": 0}, {"chunk": 1, "left": -1}, {"chunk": 1, "right": -1}])
def test_invalid_chunks_are_errors(wrong: dict[str, int]) -> None:
    with pytest.raises(MaskError, match="are not a valid window: count frames"):
        masks.chunked(3, **wrong)


def test_padding() -> None:
    lengths = torch.tensor([3, 1, 0])
    assert table(masks.padding(lengths, 3)[:, 0, 0]) == ["xxx", "x..", "..."]
    assert table(masks.padding(lengths, 3, left=True)[:, 0, 0]) == ["xxx", "..x", "..."]
    with pytest.raises(ShapeError, match="sequence 1 of length 4 does not fit 3 keys: give lengths from 0 to 3"):
        masks.padding(torch.tensor([1, 4]), 3)


def test_combine() -> None:
    assert masks.combine() is None
    assert masks.combine(None, None) is None
    only = masks.causal(3)
    assert masks.combine(None, only) is only
    both = masks.combine(only, masks.padding(torch.tensor([3, 1]), 3), None)
    assert both is not None
    assert both.shape == (2, 1, 3, 3)
    assert table(both[1, 0]) == ["x..", "x..", "x.."]


def test_masks_that_do_not_combine() -> None:
    with pytest.raises(MaskError, match=r"masks of \(3, 3\) and \(4, 4\) do not broadcast"):
        masks.combine(masks.causal(3), masks.causal(4))
    with pytest.raises(MaskError, match="a mask of float32 is not boolean: give a boolean mask"):
        masks.combine(torch.zeros(3, 3))


def test_padding_on_the_left_lets_padding_see_itself() -> None:
    mask = masks.combine(masks.causal(3), masks.padding(torch.tensor([3, 1]), 3, left=True))
    assert mask is not None
    mended = masks.fill_empty_rows(mask)
    assert table(mended[0, 0]) == ["x..", "xx.", "xxx"]
    assert table(mended[1, 0]) == ["x..", ".x.", "..x"]
    assert masks.require_rows(mended) is mended
    seeing = torch.tensor([[False, True], [False, False]])  # the first row sees something, if not itself: it stays
    assert table(masks.fill_empty_rows(seeing)) == [".x", ".x"]


@pytest.mark.parametrize(
    ("shape", "hole", "fact"),
    [
        ((4, 4), (3,), "query 3 may attend to nothing: allow each query"),
        ((2, 4, 4), (1, 3), "query 3 of batch 1 may attend to nothing: allow each query"),
        ((2, 1, 4, 4), (1, 0, 3), "query 3 of batch 1 may attend to nothing: allow each query"),
        ((2, 3, 4, 4), (1, 2, 3), "query 3 of batch 1, head 2 may attend to nothing: allow each query"),
        ((2, 1, 1, 4), (1, 0, 0), "every query of batch 1 may attend to nothing: allow each query"),
        ((2, 2, 2, 4, 4), (1, 0, 1, 3), "query 3 of axis 0 1, axis 1 0, axis 2 1 may attend to nothing: allow each"),
        ((2, 4, 4), (1,), r"query 0 of batch 1 may attend to nothing \(and 3 more rows\): allow each query"),
    ],
)
def test_a_row_that_sees_nothing_is_named(shape: tuple[int, ...], hole: tuple[int, ...], fact: str) -> None:
    mask = torch.ones(shape, dtype=torch.bool)
    mask[hole] = False
    with pytest.raises(MaskError, match=f"^{fact}"):
        masks.require_rows(mask)


def test_the_error_names_the_empty_row() -> None:
    with pytest.raises(MaskError, match=r"query 0 may attend to nothing in encoder\.3\.attention: "):
        masks.require_rows(torch.tensor([[False], [True]]), "encoder.3.attention")
