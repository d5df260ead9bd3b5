"""The summary of a dataset shown before training: columns, classes, examples, and warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

from glassformer.data.faults import Fault
from glassformer.data.images import Images
from glassformer.data.order import spread
from glassformer.data.recordings import Recordings
from glassformer.data.rows import Rows

IMBALANCE = 5.0  # the largest class has this many times the rows of the smallest
FEW = 50  # validation rows below which a metric says little
CLASSES = 12  # classes listed
CHECKED, FILES = 20_000, 100_000  # validation rows that are looked up, and training files that are compared


def examples(rows: Rows, shown: Callable[[int], str], count: int = 2) -> list[str]:
    """Return `count` evenly spaced examples: by default one from the beginning and one from the middle."""
    found = []
    for i in spread(len(rows), count):
        try:
            found.append(f"example ({rows.place(i)}): {shown(i)}")
        except Fault as fault:
            found.append(f"example ({rows.place(i)}): {fault.reason}")
    return found


def short(text: str, width: int = 60) -> str:
    text = " ".join(text.split())
    return f'"{text}"' if len(text) <= width else f'"{text[: width - 1]}…"'


def class_counts(labels: Sequence[str], targets: Iterable[int]) -> list[str]:
    """Return the number of rows of every class, and a warning if they differ much."""
    counts = Counter(targets)
    numbers = [counts[i] for i in range(len(labels))]
    listed = ", ".join(f"{name} ({n:,})" for name, n in zip(labels[:CLASSES], numbers, strict=False))
    more = f", … ({len(labels)} classes)" if len(labels) > CLASSES else ""
    lines = [f"classes: {listed}{more}"]
    most, least = max(numbers), min(numbers)
    if not least:
        absent = [name for name, n in zip(labels, numbers, strict=True) if not n]
        lines.append(f"remark: no training row has the class {', '.join(absent[:5])}: it cannot be learned")
    elif most > IMBALANCE * least:
        often, rare = labels[numbers.index(most)], labels[numbers.index(least)]
        share = most / sum(numbers)
        lines.append(
            f"remark: the classes are imbalanced: {often} has {most:,} rows and {rare} {least:,}; "
            f"always answering {often} would be right for {share:.0%}"
        )
    return lines


def classes_not_validated(labels: Sequence[str], train: Iterable[int], val: Iterable[int]) -> list[str]:
    """Warn about classes that the validation data lacks."""
    counts = Counter(train)
    absent = sorted(counts.keys() - set(val))
    if not absent:
        return []
    more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
    about = "it" if len(absent) == 1 else "them"
    only = lambda k: " (its only row is used for training)" if counts[k] == 1 else ""
    listed = f"{', '.join(f'{labels[k]}{only(k)}' for k in absent[:5])}{more}"
    return [f"remark: the validation data has no row of {listed}, so that metrics say nothing about {about}"]


def small_validation(count: int, what: str = "row") -> list[str]:
    if count >= FEW:
        return []
    rows = f"is only 1 validation {what}" if count == 1 else f"are only {count} validation {what}s"
    weight = f"each is {100 / count:.0f} % of them" if count > 1 else "it decides alone"
    return [f"remark: there {rows}, so that metrics are rough ({weight}); give more with --val"]


def duplicate_texts(train: Callable[[int], str], n: int, val: Callable[[int], str], m: int, what: str) -> list[str]:
    """Warn about validation texts that also occur in the training data."""
    checked = spread(m, CHECKED)
    wanted = {_digest(text.encode("utf-8", "replace")): text for text in _readable(val, checked)}
    seen = {
        digest for text in _readable(train, range(n)) if (digest := _digest(text.encode("utf-8", "replace"))) in wanted
    }
    count = sum(_digest(text.encode("utf-8", "replace")) in seen for text in _readable(val, checked))
    return _remark(count, len(checked), what, short(wanted[min(seen)]) if seen else "")


def duplicate_files(train: Images | Recordings, val: Images | Recordings, what: str) -> list[str]:
    """Warn about validation files with the content of a training file. Only files of equal size are read; if the data
    contains the bytes of its files, CHECKED rows are read."""
    ours, theirs = _by_size(train, FILES), _by_size(val, CHECKED)
    common = ours.keys() & theirs.keys()
    seen = {_digest(_bytes(file)) for size in common for file in ours[size].values()}
    same = [name for size in common for name, file in theirs[size].items() if _digest(_bytes(file)) in seen]
    return _remark(len(same), min(len(val), CHECKED), what, same[0] if same else "")


def _remark(count: int, checked: int, what: str, example: str) -> list[str]:
    if not count:
        return []
    occur = "occurs" if count == 1 else "occur"
    text = f"remark: {count:,} of {checked:,} validation {what} also {occur} in the training data"
    return [f"{text}: the metrics look better than they are", f"example (in both): {example}"]


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=12).digest()


def _readable(read: Callable[[int], str], rows: Iterable[int]) -> Iterator[str]:
    for i in rows:
        try:
            yield read(i)
        except Fault:
            continue


def _by_size(data: Images | Recordings, most: int) -> dict[int, dict[str, Path | bytes]]:
    """Return {size: {name: the file, or the digest of its bytes if the data contains them}}."""
    role = "image" if isinstance(data, Images) else "audio"
    inside = len(data) > 0 and isinstance(data.rows.reader.sample()[0].get(data.rows.columns[role][0]), dict)
    found: dict[int, dict[str, Path | bytes]] = {}
    for i in spread(len(data), min(most, CHECKED) if inside else most):
        name = data.files[i] if isinstance(data, Images) else data.name(i)
        if inside:
            try:
                content = data.rows[i][role]
            except Fault:
                continue
            if isinstance(content, dict) and isinstance(content.get("bytes"), bytes):
                found.setdefault(len(content["bytes"]), {})[name] = _digest(content["bytes"])
        elif (path := data.rows.locate(name, role)) is not None:
            found.setdefault(path.stat().st_size, {})[name] = path
    return found


def _bytes(file: Path | bytes) -> bytes:
    return file.read_bytes() if isinstance(file, Path) else file
