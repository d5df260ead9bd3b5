from __future__ import annotations

import pytest

from glassformer.errors import GlassError, InputError, MaskError, ShapeError
from glassformer.exercises.exercise import from_data

EYE = [[1, 0], [0, 1]]
HEAD = {"WQ": EYE, "WK": EYE, "WV": EYE}
X = [[1, 2], [3, 4], [5, 6]]
ATTENTION = {"X": X, "heads": [HEAD]}


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        ({**ATTENTION, "Q": EYE}, InputError, "both heads"),
        ({"Q": EYE, "K": EYE}, InputError, "V or WV: neither"),
        ({"heads": [HEAD]}, InputError, "neither X|no X"),
        ({"X": X, "heads": [{**HEAD, "Q": EYE}]}, InputError, r"heads\[1\].Q.*both"),
        ({"X": X, "heads": [{**HEAD, "WQ": [[1, 0]]}]}, ShapeError, r"heads\[1\].WQ is 1×2, but there are 2.*2 rows"),
        ({"X": X, "heads": [HEAD, {**HEAD, "WK": [[1], [1]]}]}, ShapeError, "Q of head 2 has width 2 and K"),
        ({"X": X, "heads": [{**HEAD, "bV": [1, 2, 3]}]}, ShapeError, "bV has 3 entries"),
        ({"Q": EYE, "K": EYE, "V": X}, ShapeError, "K has 2 tokens, V has 3"),
        ({**ATTENTION, "WO": [[1, 0]]}, ShapeError, "WO is 1×2"),
        ({**ATTENTION, "bO": [1, 2]}, InputError, "bO"),
        ({**ATTENTION, "mask": EYE}, MaskError, "2×2: make it 3×3"),
        ({**ATTENTION, "mask": [[1, 0, 0], [0, 0, 0], [1, 1, 1]]}, MaskError, "query 2 may attend to nothing"),
        ({**ATTENTION, "mask": [[1, 0, 0], [0, 2, 0], [1, 1, 1]]}, MaskError, "has 2 in row 2, column 2"),
        ({**ATTENTION, "positions": EYE}, ShapeError, "positions is 2×2: make it 3×2"),
        ({"Q": EYE, "K": EYE, "V": EYE, "positions": "sinusoidal"}, InputError, "without X"),
        ({"Q": EYE, "K": EYE, "V": EYE, "residual": True}, InputError, "needs X"),
        ({"Q": EYE, "K": EYE, "V": EYE, "memory": EYE}, InputError, "memory"),
        ({"X": X, "memory": EYE}, InputError, "memory is given without heads"),
        ({**ATTENTION, "WO": [[1], [1]], "residual": True}, ShapeError, "width 1"),
        ({**ATTENTION, "layernorm": {"gamma": [1]}}, ShapeError, "gamma has 1"),
        ({**ATTENTION, "layernorm": {"eps": -1}}, InputError, "eps"),
        ({**ATTENTION, "ffn": {"W1": [[1]], "W2": [[1]]}}, ShapeError, "ffn.W1"),
        ({**ATTENTION, "residual": True, "ffn": {"W1": EYE, "W2": [[1], [1]]}}, ShapeError, "ffn.W2"),
        ({"patches": {"size": 2}}, InputError, "no image"),
        ({"patches": {"size": 3, "height": 8, "width": 9}}, ShapeError, "8×9 does not split"),
        ({"patches": {"size": 2, "height": 8, "width": 8}, "heads": [HEAD]}, InputError, "no image"),
        ({"patches": {"size": 2, "image": EYE}, "X": X}, InputError, "both X and patches"),
        ({"patches": {"size": 1, "image": [[0] * 10] * 10}}, ShapeError, "too many"),
        ({"patches": {"size": 2, "image": EYE, "W": EYE}}, ShapeError, "numbers in a patch"),
        ({"transport": {"p": [1, 1], "q": [1]}}, ShapeError, "2 bins and q has 1"),
        ({"transport": {"p": [1, 1], "q": [1, 2]}}, InputError, "mass 2 and q the mass 3"),
        ({"transport": {"p": [2, -1], "q": [1, 0]}}, InputError, "-1 in bin 2"),
        ({"transport": {"p": [0], "q": [0]}}, InputError, "no mass"),
        ({"transport": {"p": [1, 0], "q": [0, 1], "positions": [2, 1]}}, InputError, "increas"),
        ({"transport": {"p": [1], "q": [1]}, "X": X}, InputError, "cannot be combined with X"),
        ({"cost": {"N": "1/2", "D": 2}}, InputError, "cost.N"),
    ],
)
def test_misfits_are_named(data: dict[str, object], error: type[GlassError], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        from_data(data)
    assert "\n" not in str(caught.value)


def test_column_layout_reads_shapes_the_other_way() -> None:
    columns = {"layout": "columns", "X": [[1, 2, 3], [4, 5, 6]], "heads": [{**HEAD, "WV": [[1, 1], [0, 1], [1, 0]]}]}
    assert from_data({**columns, "WO": [[1, 0, 1]]}).kind == "attention"
    with pytest.raises(ShapeError, match=r"WO is 2×2, but there are 3.*3 columns"):
        from_data({**columns, "WO": EYE})
