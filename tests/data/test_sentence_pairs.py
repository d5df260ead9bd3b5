from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.faults import Fault
from glassformer.data.pairs import Pairs
from glassformer.errors import ConfigError, InputError

WORD = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs"]), min_size=1, max_size=8)


@given(st.lists(st.tuples(WORD, WORD), min_size=1), st.booleans(), st.booleans())
def test_every_pair_is_read(tmp_path_factory: Any, given: list[tuple[str, str]], crlf: bool, bom: bool) -> None:
    path = tmp_path_factory.getbasetemp() / "pairs.tsv"
    text = "".join(f"{a}\t{b}" + ("\r\n" if crlf else "\n") for a, b in given)
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + text.encode())
    if not bom and text.startswith("\ufeff"):
        return
    pairs = Pairs.open(path)
    assert len(pairs) == len(given)
    assert [(pairs.source(i), pairs.target(i)) for i in range(len(pairs))] == given
    assert [pairs.pair(i) for i in range(len(pairs))] == given
    assert [pairs.length(i) for i in range(len(pairs))] == [max(len(a.encode()), len(b.encode())) for a, b in given]
    assert pairs.lengths.tolist() == [pairs.length(i) for i in range(len(pairs))]


def test_what_is_wrong_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    lines = [b"a\tb\tme"] * 10 + [b"", b"a\tb", b"a\tb\tc\td", b"\xff\tb\tme", b" \tb\tme", b"a" * 50 + b"\tb\tme"]
    path.write_bytes(b"\n".join([*lines, "ü\té\tme".encode()]))
    pairs = Pairs.open(path, longest=49)
    assert len(pairs) == 11
    assert pairs.pair(10) == ("ü", "é")
    assert pairs.rows.place(10) == "a.tsv line 17"
    assert pairs.faults.summary() == [
        "empty line: 1 (a.tsv line 11)",
        "wrong number of columns (not 3): 2 (a.tsv line 12, a.tsv line 13)",
        "not UTF-8: 1 (a.tsv line 14)",
        "empty sentence: 1 (a.tsv line 15)",
        "sentence of more than 49 bytes: 1 (a.tsv line 16)",
    ]
    assert pairs.faults.tried == 17
    part = pairs.part(np.array([10, 2]))
    assert [part.pair(i) for i in range(len(part))] == [("ü", "é"), ("a", "b")]
    assert (part.rows.place(0), part.lengths.tolist(), len(part.faults)) == ("a.tsv line 17", [2, 1], 0)


def test_columns_by_number_and_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("id\ten\tfr\n1\tyes\toui\n2\tno\tnon\n")
    assert Pairs.open(path, {"source": "2", "target": "1"}).pair(0) == ("oui", "yes")
    assert Pairs.open(path).pair(0) == ("yes", "oui"), "languages are usual names, and a header is not a pair"
    named = Pairs.open(path, {"source": "fr", "target": "en"})
    assert [named.pair(i) for i in range(len(named))] == [("oui", "yes"), ("non", "no")]
    assert (named.source(1), named.target(1), named.rows.place(1)) == ("non", "no", "a.tsv line 3")


def test_the_text_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(("x" * 900 + "\t" + "y" * 900 + "\n") * 500)
    pairs = Pairs.open(path)
    carried = pickle.dumps(pairs)
    assert len(carried) < 25_000 < path.stat().st_size
    assert pickle.loads(carried).source(499) == "x" * 900
    path.write_text("changed\n" * 150_000)
    with pytest.raises(Fault, match=r"changed since the file was opened: a\.tsv line 1"):
        pairs.source(0)


def test_what_is_refused(tmp_path: Path, refused: Any) -> None:
    path = tmp_path / "a.tsv"
    refused(InputError, f"there is no {path}: give", lambda: Pairs.open(path))
    path.write_text("\n\n")
    refused(InputError, f"{path} is empty: give", lambda: Pairs.open(path))
    path.write_text("a b\nc d\n")
    refused(InputError, f"{path} has no column for target among 0: give a table with", lambda: Pairs.open(path))
    path.write_text("en\tfr\nx\ty\n")
    german = {"source": "en", "target": "de"}
    refused(InputError, f"{path} has no column de among en, fr: name", lambda: Pairs.open(path, german))
    refused(ConfigError, "--columns text=en is not a role of this data: name", lambda: Pairs.open(path, {"text": "en"}))
    path.write_text("en\tfr\n")
    refused(InputError, f"{path} has no sentence pairs: give", lambda: Pairs.open(path))
    path.write_text("a\tb\n" + "\n" * 3)
    refused(InputError, "3 of 4 cannot be used, most of them because of empty line", lambda: Pairs.open(path))
