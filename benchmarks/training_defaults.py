"""What the defaults of `glassformer train` reach, beside scikit-learn, Keras and a ResNet of the same processor time.

    .venv/bin/python benchmarks/training_defaults.py [--only NAME ...] [--threads N] [--peers PYTHON] [--update]

Runs the commands that a user would run, in a process of their own, and counts processor time and the clock. On a busy
machine use --threads 1: threads that wait for each other burn processor time. The weights are chosen on 10 % of the
training data; the test data is used once. Results are kept in results/training-defaults.json; --update writes the table
in docs/train.md and src/glassformer/train/measured_runs.json. --peers measures the baselines with an interpreter that
has scikit-learn, keras and sentence-transformers besides Glassformer's packages.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import math
import os
import resource
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "training-defaults.json"
MEASURED = ROOT / "src" / "glassformer" / "train" / "measured_runs.json"
BEGIN, END = "<!-- defaults -->\n", "<!-- /defaults -->"
DOWNLOADS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glassformer" / "downloads"

# ---- data ------------------------------------------------------------------------------------------------------------

EMOJI = {  # class → subcategories of Unicode's emoji list
    "face": ("face-",), "person": ("person-role", "person-gesture", "person-sport"), "hand": ("hand",),
    "animal": ("animal-",), "food": ("food-", "drink", "plant-"), "transport": ("transport-ground", "transport-air",
    "transport-water"), "place": ("place-", "hotel"), "flag": ("country-flag",), "sky": ("sky & weather", "time"),
    "symbol": ("arrow", "av-symbol", "alphanum", "zodiac", "warning", "transport-sign", "religion"),
}  # fmt: skip
VENDORS = ("twitter", "google")
MOST = 130  # emoji of a class
SENTENCES = 3000  # of film reviews, a third of them for the test


def packed(kind: str, name: str, version: str) -> Path:
    """Download a package from npm or PyPI once, and return its archive."""
    DOWNLOADS.mkdir(parents=True, exist_ok=True)
    archive = DOWNLOADS / (f"{name}-{version}.tgz" if kind == "npm" else f"{name}-{version}.tar.gz")
    if not archive.exists():
        npm = ["npm", "pack", f"{name}@{version}"]
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", f"{name}=={version}"]
        subprocess.run(npm if kind == "npm" else pip, cwd=DOWNLOADS, check=True, capture_output=True)
    return archive


def hashed(text: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64


def emoji(place: Path) -> tuple[Path, Path]:
    """2,000 PNGs of 64 × 64 in ten classes; all drawings of one emoji are in the same split."""
    for vendor in VENDORS:
        with tarfile.open(packed("npm", f"emoji-datasource-{vendor}", "16.0.0")) as archive:
            listed = archive.extractfile("package/emoji.json")
            assert listed is not None
            chosen, counts = {}, dict.fromkeys(EMOJI, 0)
            for one in sorted(json.load(listed), key=lambda one: hashed(one["unified"])):
                kind = next((k for k, some in EMOJI.items() if one["subcategory"].startswith(some)), None)
                drawn = all(one[f"has_img_{name}"] for name in VENDORS)
                if kind is not None and drawn and counts[kind] < MOST:
                    counts[kind] += 1
                    chosen[f"package/img/{vendor}/64/{one['image']}"] = (kind, one["unified"])
            for member in archive:
                if member.name in chosen:
                    kind, code = chosen[member.name]
                    folder = place / ("test" if hashed("split" + code) < 0.2 else "train") / kind
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / f"{code}-{vendor}.png").write_bytes(archive.extractfile(member).read())  # type: ignore[union-attr]
    return place / "train", place / "test"


def sentiment(place: Path) -> tuple[Path, Path]:
    """3,000 sentences of film reviews that readers called positive or negative (Hutto, Gilbert 2014), from PyPI."""
    with tarfile.open(packed("pip", "vaderSentiment", "3.3.2")) as outer:
        inner = outer.extractfile("vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz")
        assert inner is not None
        with tarfile.open(fileobj=io.BytesIO(inner.read())) as archive:
            found = archive.extractfile("hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt")
            assert found is not None
            rows = [line.split("\t") for line in found.read().decode("utf-8", "replace").splitlines()]
    place.mkdir(parents=True, exist_ok=True)
    kept = [(text.strip(), "pos" if float(score) > 0 else "neg") for _, score, text in rows if abs(float(score)) > 0.5]
    kept = sorted(kept, key=lambda row: hashed(row[0].lower()))[:SENTENCES]
    for name, part in (("train.csv", kept[SENTENCES // 3 :]), ("test.csv", kept[: SENTENCES // 3])):
        with (place / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("text", "label"))
            writer.writerows(part)
    return place / "train.csv", place / "test.csv"


def embedded(name: str) -> Callable[[Path], tuple[Path, Path]]:
    def opened(place: Path) -> tuple[Path, Path]:
        from glassformer.data.sources import unpack

        folder = unpack(name)
        return folder / "train", folder / "test"

    return opened


RUNS: dict[str, tuple[Callable[[Path], tuple[Path, Path]], tuple[str, ...], str]] = {
    "uci-digits": (embedded("uci-digits"), (), "images"),
    "fashion-mnist (embedded)": (embedded("fashion-mnist"), (), "images"),
    "emoji": (emoji, ("--from", "objects"), "images"),
    "film reviews": (sentiment, ("--from", "all-minilm-l6-v2"), "texts"),
}

# ---- runs ------------------------------------------------------------------------------------------------------------


def timed(command: list[str], threads: int) -> tuple[str, float, float]:
    """Run a command; returns its output, wall-clock seconds and seconds of processor time."""
    path = str(ROOT / "src")  # the peers' environment does not have Glassformer
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "KERAS_BACKEND": "torch", "PYTHONPATH": path}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, time.perf_counter() - start, used


def measure(name: str, place: Path, threads: int) -> dict[str, Any]:
    opened, options, kind = RUNS[name]
    train, test = opened(place / "data")
    model = place / "model"
    command = [sys.executable, "-m", "glassformer", "train", "classify", str(train), "-o", str(model), *options]
    _, seconds, used = timed(command, threads)
    evaluate = [sys.executable, "-m", "glassformer", "evaluate", str(test), "-m", str(model), "--json"]
    found = json.loads(timed(evaluate, threads)[0])
    log = [json.loads(line) for line in (model / "run" / "log.jsonl").read_text().splitlines()]
    curve = [(round(line["seconds"] * used / seconds, 1), line["val"]["accuracy"]) for line in log if line.get("val")]
    classes, rows = _counted(train)
    return {
        "name": name, "kind": kind, "options": " ".join(options), "rows": rows, "classes": classes,
        "steps": log[-1]["step"], "accuracy": found["accuracy"], "tested": found.get("images") or found.get("texts"),
        "seconds": round(seconds, 1), "processor_seconds": round(used, 1), "threads": threads, "curve": curve,
        "baselines": {},
    }  # fmt: skip


def measure_baselines(one: dict[str, Any], place: Path, python: Path, threads: int, only: str) -> dict[str, Any]:
    """Run the baselines of a measured run, with its processor time as the budget of the networks."""
    train, test = RUNS[one["name"]][0](place)
    command = [str(python), __file__, "--baselines", one["kind"], str(train), str(test), str(one["processor_seconds"])]
    command += ["--baseline", only]
    return dict(json.loads(timed(command, threads)[0].splitlines()[-1]))


def _counted(train: Path) -> tuple[int, int]:
    if train.is_dir():
        folders = [folder for folder in train.iterdir() if folder.is_dir()]
        return len(folders), sum(len(list(folder.iterdir())) for folder in folders)
    with train.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return len({row[1] for row in rows}), len(rows)


# ---- baselines, in the peers' environment ----------------------------------------------------------------------------


def baselines(kind: str, train: Path, test: Path, budget: float, only: str) -> dict[str, tuple[float, float]]:
    """Accuracy and processor seconds of each baseline whose name contains `only`."""
    found: dict[str, tuple[float, float]] = {}

    def add(name: str, made: Callable[[], float]) -> None:
        if only not in name:
            return
        start = time.process_time()
        found[name] = made(), time.process_time() - start

    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    if kind == "texts":
        from sklearn.feature_extraction.text import TfidfVectorizer

        (x, y), (u, v) = (_texts(path) for path in (train, test))
        tfidf = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(max_iter=1000))
        add("TF-IDF (1–2 words) + logistic regression", lambda: float(tfidf.fit(x, y).score(u, v)))

        def embedded_lr() -> float:
            from sentence_transformers import SentenceTransformer

            from glassformer.pipelines.loading import find_model

            encoder = SentenceTransformer(str(find_model("all-minilm-l6-v2")), device="cpu")
            a, b = encoder.encode(x, normalize_embeddings=True), encoder.encode(u, normalize_embeddings=True)
            return float(LogisticRegression(max_iter=2000, C=10.0).fit(a, y).score(b, v))

        add("sentence-transformers + logistic regression", embedded_lr)
        add("Keras, CNN of its introduction to texts, stopped early", lambda: _keras_texts(x, y, u, v, budget))
        return found
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    (X, y), (U, v) = (_images(path) for path in (train, test))
    flat = lambda images: images.reshape(len(images), -1)
    linear, svm = (make_pipeline(StandardScaler(), one) for one in (LogisticRegression(max_iter=500), SVC()))
    add("logistic regression on pixels", lambda: float(linear.fit(flat(X), y).score(flat(U), v)))
    add("SVM (RBF) on pixels", lambda: float(svm.fit(flat(X), y).score(flat(U), v)))
    add("Keras, CNN of its introduction, same time", lambda: _keras(X, y, U, v, budget))
    add("ResNet with one-cycle schedule as in fastai, same time", lambda: _resnet(X, y, U, v, budget))
    return found


def _texts(path: Path) -> tuple[list[str], list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [row[0] for row in rows], [row[1] for row in rows]


def _images(folder: Path) -> tuple[Any, Any]:
    import numpy as np
    from PIL import Image

    names = sorted(one.name for one in folder.iterdir() if one.is_dir())
    X, y = [], []
    for k, name in enumerate(names):
        for path in sorted((folder / name).iterdir()):
            image = Image.open(path)
            image = image.convert("RGBA").convert("RGB").resize((32, 32)) if image.mode not in ("L", "1") else image
            X.append(np.asarray(image, dtype=np.float32) / 255)
            y.append(k)
    return np.stack(X), np.array(y)


def _keras(X: Any, y: Any, U: Any, v: Any, budget: float) -> float:
    """The convolutional network that Keras is introduced with ("Simple MNIST convnet"), on its torch backend."""
    import keras

    keras.utils.set_random_seed(0)
    A, B = (some[..., None] if some.ndim == 3 else some for some in (X, U))
    pool = lambda: keras.layers.MaxPooling2D(2, padding="same")
    conv = lambda width: keras.layers.Conv2D(
        width, 3, activation="relu", padding="same" if X.shape[1] < 16 else "valid"
    )
    layers = [conv(32), pool(), conv(64), pool(), keras.layers.Flatten(), keras.layers.Dropout(0.5)]
    model = keras.Sequential([keras.Input(A.shape[1:]), *layers, keras.layers.Dense(int(y.max()) + 1)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, optimizer="adam", metrics=["accuracy"])
    start = time.process_time()

    class Budget(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.stop_training = time.process_time() - start > budget

    model.fit(A, y, batch_size=128, epochs=10_000, verbose=0, callbacks=[Budget()])
    return float(model.evaluate(B, v, verbose=0)[1])


def _keras_texts(x: list[str], y: list[str], u: list[str], v: list[str], budget: float) -> float:
    """The network of "Text classification from scratch" on keras.io, with the weights of its best epoch.

    A tenth of the training data chooses the epoch: after a few the network overfits. Words are split by scikit-learn,
    as Keras's own TextVectorization needs TensorFlow.
    """
    import keras
    import numpy as np
    from sklearn.feature_extraction.text import CountVectorizer

    keras.utils.set_random_seed(0)
    words = CountVectorizer(max_features=20_000 - 2, token_pattern=r"(?u)\b\w+\b").fit(x)
    split, known, longest = words.build_analyzer(), words.vocabulary_, 64

    def ids(texts: list[str]) -> Any:
        rows = np.zeros((len(texts), longest), dtype=np.int64)  # 0 is padding, 1 an unknown word
        for row, text in zip(rows, texts, strict=True):
            found = [known.get(word, -1) + 2 for word in split(text)][:longest]
            row[: len(found)] = found
        return rows

    names = sorted(set(y))
    conv = lambda: keras.layers.Conv1D(128, 7, padding="valid", activation="relu", strides=3)
    layers = [keras.layers.Embedding(20_000, 128), keras.layers.Dropout(0.5), conv(), conv()]
    layers += [keras.layers.GlobalMaxPooling1D(), keras.layers.Dense(128, activation="relu"), keras.layers.Dropout(0.5)]
    model = keras.Sequential([keras.Input((longest,), dtype="int64"), *layers, keras.layers.Dense(len(names))])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, optimizer="adam", metrics=["accuracy"])
    best = keras.callbacks.EarlyStopping(monitor="val_accuracy", mode="max", patience=5, restore_best_weights=True)
    start = time.process_time()

    class Budget(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if time.process_time() - start > budget:
                self.model.stop_training = True

    targets, tested = (np.array([names.index(one) for one in some]) for some in (y, v))
    held = len(x) // 10
    A = ids(x)
    model.fit(
        A[held:], targets[held:], validation_data=(A[:held], targets[:held]), batch_size=32, epochs=1000, verbose=0,
        callbacks=[best, Budget()],
    )  # fmt: skip
    return float(model.evaluate(ids(u), tested, verbose=0)[1])


def _resnet(X: Any, y: Any, U: Any, v: Any, budget: float) -> float:
    """A small ResNet with AdamW, one-cycle learning rate of 3e-3 and label smoothing, as fastai trains by default."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    images = lambda some: (
        torch.from_numpy(some)[:, None] if some.ndim == 3 else torch.from_numpy(some).permute(0, 3, 1, 2)
    )
    A, B, t = images(X).contiguous(), images(U).contiguous(), torch.from_numpy(y)
    mean, std = A.mean((0, 2, 3), keepdim=True), A.std((0, 2, 3), keepdim=True)
    A, B = (A - mean) / std, (B - mean) / std

    class Block(nn.Module):
        def __init__(self, a: int, b: int, stride: int) -> None:
            super().__init__()
            one = nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
            self.path = nn.Sequential(*one, nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b))
            self.skip = nn.Conv2d(a, b, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            return nn.functional.relu(self.path(x) + self.skip(x))

    blocks = [Block(A.shape[1], 16, 1), Block(16, 32, 2), Block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = nn.Sequential(*blocks, nn.Linear(64, int(t.max()) + 1))
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)

    def epoch(rates: Callable[[], float]) -> None:
        for rows in torch.randperm(len(A)).split(64):
            for group in optimizer.param_groups:
                group["lr"] = rates()
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(A[rows]), t[rows], label_smoothing=0.1).backward()
            optimizer.step()

    start = time.process_time()
    share = lambda: min(1.0, (time.process_time() - start) / budget)
    up = lambda k: k / 0.25 if k < 0.25 else 0.5 + 0.5 * math.cos(math.pi * (k - 0.25) / 0.75)
    while share() < 1:
        epoch(lambda: 3e-3 * max(0.01, up(share())))
    model.eval()
    with torch.no_grad():
        answers = torch.cat([model(some).argmax(1) for some in B.split(500)])
    return float((answers == torch.from_numpy(v)).float().mean())


# ---- pages -----------------------------------------------------------------------------------------------------------


def write(results: dict[str, Any]) -> None:
    lines = ["| data | command | test accuracy | time | baselines (processor time) |", "|---|---|---|---|---|"]
    for one in results["runs"]:
        data = f"{one['name']}: {one['rows']:,} rows, {one['classes']} classes; {one['tested']:,} tested"
        scored = one["baselines"].items()
        others = "; ".join(f"{name} {100 * acc:.1f} % ({used:.0f} s)" for name, (acc, used) in scored) or "not measured"
        command = f"`train classify DATA {one['options']}`".replace(" `", "`")
        lines.append(
            f"| {data} | {command} | **{100 * one['accuracy']:.1f} %** | {one['seconds']:.0f} s, "
            f"{one['threads']} thread{'s' if one['threads'] > 1 else ''}; "
            f"processor time {one['processor_seconds']:.0f} s | {others} |"
        )
    page = ROOT / "docs" / "train.md"
    text = page.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    page.write_text(head + BEGIN + "\n".join(lines) + "\n" + END + rest.split(END)[1], encoding="utf-8")
    runs = [
        {
            "name": one["name"], "task": "classify", "kind": one["kind"], "rows": one["rows"],
            "classes": one["classes"], "from_": one["options"].partition("--from ")[2] or None, "metric": "accuracy",
            "curve": one["curve"],
        }
        for one in results["runs"]
    ]  # fmt: skip
    MEASURED.write_text(json.dumps({"runs": runs}, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--only", nargs="*", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--place", type=Path, default=Path("/tmp/training-defaults"), help="Folder of data and models.")
    parser.add_argument("--update", action="store_true", help="Write the table and measured_runs.json.")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peers", type=Path, help="Measure the baselines with this interpreter.")
    parser.add_argument("--baseline", default="", help="With --peers, measure only baselines whose name contains this.")
    parser.add_argument("--baselines", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.baselines:
        kind, train, test, budget = args.baselines
        print(json.dumps(baselines(kind, Path(train), Path(test), float(budget), args.baseline)))
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": []}
    for one in results["runs"] if args.peers else ():
        if one["name"] in args.only:
            place = args.place / f"{one['name'].split()[0]}-data"
            one["baselines"] |= measure_baselines(one, place, args.peers, args.threads, args.baseline)
            print(one["name"], one["accuracy"], one["baselines"], flush=True)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for name in () if args.update or args.peers else args.only:
        found = measure(name, args.place / f"{name.split()[0]}-{time.time():.0f}", args.threads)
        print(json.dumps({key: value for key, value in found.items() if key != "curve"}), flush=True)
        kept = {one["name"]: one for one in results["runs"]}
        found["baselines"] = kept[name]["baselines"] if name in kept else {}  # --peers measures them anew
        kept[name] = found
        results["runs"] = [kept[one] for one in RUNS if one in kept]
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if args.update:
        write(results)


if __name__ == "__main__":
    main()
