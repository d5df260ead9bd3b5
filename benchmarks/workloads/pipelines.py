"""From raw input to the answer: sentences to vectors, speech to text, translation with beams, and a live stream."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads import SHORT, THREADS, Ready, Target, Workload, assets, real_text
from workloads.encoders import layers, minilm

SENTENCES, SECONDS, TRANSLATIONS, BEAMS, ANSWER = (200, 10, 8, 4, 4) if SHORT else (10_000, 60, 200, 4, 24)
WARM = 200  # sentences before the clock starts


# ---- sentences to vectors --------------------------------------------------------------------------------------------


def ours_embed(precision: str) -> Callable[[], Ready]:
    def load() -> Ready:
        import glassformer as gf
        from glassformer.pipelines.tokenizers import tokenizer_of

        model, lines = gf.load(minilm(), precision=precision), real_text.sentences(SENTENCES)
        tokens = [len(tokenizer_of(model).encode(line)) for line in lines]
        facts = {"tokens": sum(tokens), "operations": sum(layers(6, 384, n, 1) for n in tokens)}
        return Ready(lambda: gf.embed(model, lines), facts, lambda: gf.embed(model, lines[:WARM]))

    return load


def sentence_transformers() -> Ready:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(THREADS)
    model, lines = SentenceTransformer(str(minilm()), device="cpu"), real_text.sentences(SENTENCES)
    encode = lambda count: model.encode(lines[:count], show_progress_bar=False)
    return Ready(lambda: encode(SENTENCES), warm=lambda: encode(WARM))


def fastembed() -> Ready:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    def make(folder: Path) -> None:
        """The encoder's vectors of all tokens as ONNX, which is what fastembed pools itself."""
        import torch
        from transformers import AutoModel

        folder.mkdir()
        for file in ("tokenizer.json", "tokenizer_config.json", "config.json", "special_tokens_map.json"):
            shutil.copy(minilm() / file, folder / file)
        names = ("input_ids", "attention_mask", "token_type_ids")
        example = {name: torch.ones(2, 8, dtype=torch.long) for name in names}
        axes = {name: {0: "batch", 1: "tokens"} for name in (*example, "last_hidden_state")}

        class Call(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = AutoModel.from_pretrained(minilm(), attn_implementation="eager", dtype=torch.float32)

            def forward(self, ids: Any, mask: Any, kinds: Any) -> Any:
                return self.model(input_ids=ids, attention_mask=mask, token_type_ids=kinds).last_hidden_state

        torch.onnx.export(
            Call().eval(), tuple(example.values()), str(folder / "model.onnx"), input_names=list(example),
            output_names=["last_hidden_state"], dynamic_axes=axes, dynamo=False,
        )  # fmt: skip

    folder, lines = assets.made("minilm-fastembed", make), real_text.sentences(SENTENCES)
    TextEmbedding.add_custom_model(
        model="local/minilm", pooling=PoolingType.MEAN, normalization=True, sources=ModelSource(hf="local/minilm"),
        dim=384, model_file="model.onnx",
    )  # fmt: skip
    model = TextEmbedding("local/minilm", specific_model_path=str(folder), threads=THREADS)
    return Ready(lambda: list(model.embed(lines)) and None, warm=lambda: list(model.embed(lines[:WARM])))


# ---- speech to text --------------------------------------------------------------------------------------------------


def whisper() -> Path:
    return assets.fetched("whisper-tiny.en")


def speech() -> Any:
    """A minute of five read sentences, repeated."""
    import torch

    from glassformer.data.audio import read_sound
    from glassformer.data.sources.opening import open_data

    clips = sorted(path for path in open_data("librivox").rglob("*") if path.suffix in (".flac", ".wav"))
    wave = torch.cat([read_sound(clip) for clip in clips])
    return wave.repeat(SECONDS * 16000 // len(wave) + 1)[: SECONDS * 16000]


def ours_transcribe(precision: str) -> Callable[[], Ready]:
    def load() -> Ready:
        import glassformer as gf

        model, wave = gf.load(whisper(), precision=precision), speech()
        text = gf.transcribe(model, wave).text
        facts = {"text": text[:200]} | ({} if precision == "fp32" else _speech_agreement(model, wave, text))
        return Ready(lambda: gf.transcribe(model, wave), facts)

    return load


def _speech_agreement(model: Any, wave: Any, text: str) -> dict[str, float]:
    """Cosines of the logits to fp32's: the first window of the speech, and the words that the model found in it."""
    import torch

    import glassformer as gf
    from glassformer.pipelines.tokenizers import tokenizer_of
    from glassformer.pipelines.transcribe import window_frames

    frames = window_frames(wave[: 30 * 16000], model.window, model.bands)[None]
    ids = torch.tensor([[model.start_token, *tokenizer_of(model).encode(text)][: 64 * min(SECONDS, 30) // 30]])
    return cosines(lambda one: one(frames, ids), gf.load(whisper()), model)


def cosines(call: Callable[[Any], Any], plain: Any, model: Any) -> dict[str, float]:
    """The mean and the least cosine between the outputs of a model and those in fp32."""
    import torch

    with torch.no_grad():
        expected, found = (call(one).double() for one in (plain, model))
    agree = torch.nn.functional.cosine_similarity(found, expected, dim=-1)
    return {"cosine": float(agree.mean()), "least cosine": float(agree.min())}


def faster_whisper() -> Ready:
    """Greedy, one temperature, no voice detection, windows on their own: the work that ours does."""
    from faster_whisper import WhisperModel

    path = assets.ctranslate2("whisper-tiny.en", whisper(), "int8")
    model = WhisperModel(str(path), device="cpu", compute_type="int8", cpu_threads=THREADS)
    wave = speech().numpy()

    def run() -> str:
        found, _ = model.transcribe(
            wave, language="en", beam_size=1, best_of=1, temperature=0.0, condition_on_previous_text=False
        )
        return " ".join(segment.text.strip() for segment in found)

    return Ready(lambda: run() and None, {"text": run()[:200]})


def hf_whisper() -> Ready:
    import torch
    from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

    torch.set_num_threads(THREADS)
    model = WhisperForConditionalGeneration.from_pretrained(whisper(), dtype=torch.float32).eval()
    extract, wave = WhisperFeatureExtractor.from_pretrained(whisper()), speech().numpy()

    def run() -> None:
        options = {"truncation": False, "padding": "longest", "return_attention_mask": True}
        features = extract(wave, sampling_rate=16000, return_tensors="pt", **options)
        with torch.inference_mode():
            model.generate(**features, return_timestamps=True)

    return Ready(run)


# ---- translation -----------------------------------------------------------------------------------------------------


def sources() -> list[list[int]]:
    """Token ids with the lengths of real sentences; random weights do not care for words."""
    lengths = [max(4, min(40, len(line.split()) * 4 // 3)) for line in real_text.sentences(SENTENCES)[:TRANSLATIONS]]
    return [[(7919 * (i + 31 * j)) % 50000 + 100 for j in range(n)] + [0] for i, n in enumerate(lengths)]


def ours_translate(precision: str) -> Callable[[], Ready]:
    """Every answer has the same length: random weights would hardly ever end one."""

    def load() -> Ready:
        import torch

        import glassformer as gf
        from glassformer.decoding import Stopping, beam_search
        from glassformer.pipelines.translate import AT_ONCE

        model, given = gf.load(assets.marian(), precision=precision), sorted(sources(), key=len)
        stopping = Stopping(max_new_tokens=ANSWER, min_new_tokens=ANSWER)

        def run(given: list[list[int]] = given) -> None:
            for start in range(0, len(given), AT_ONCE):
                session = model.session(start=(58100,), ends=(0,))
                beam_search(session, given[start : start + AT_ONCE], num_beams=BEAMS, stopping=stopping)

        ids = torch.tensor([given[-1]])  # the answer is read as any tokens would be
        facts = {} if precision == "fp32" else cosines(lambda m: m(ids, ids), gf.load(assets.marian()), model)
        return Ready(run, facts, warm=lambda: run(given[:8]))

    return load


def ct2_translate(precision: str) -> Callable[[], Ready]:
    def load() -> Ready:
        import ctranslate2

        path = assets.ctranslate2("marian", assets.marian(), precision)
        model = ctranslate2.Translator(str(path), compute_type=precision, intra_threads=THREADS, inter_threads=1)
        given = [[f"w{i}" if i else "</s>" for i in ids] for ids in sources()]

        def run(given: list[list[str]] = given) -> None:
            found = model.translate_batch(
                given, beam_size=BEAMS, max_decoding_length=ANSWER, min_decoding_length=ANSWER, max_batch_size=64
            )
            lengths = {len(one.hypotheses[0]) for one in found}
            if lengths != {ANSWER}:
                raise RuntimeError(f"CTranslate2 made answers of {lengths} tokens")

        return Ready(run, warm=lambda: run(given[:8]))

    return load


def hf_translate() -> Ready:
    import torch
    from transformers import MarianMTModel

    torch.set_num_threads(THREADS)
    model, given = MarianMTModel.from_pretrained(assets.marian()).eval(), sorted(sources(), key=len)
    batches = []
    for start in range(0, len(given), 64):
        rows = given[start : start + 64]
        longest = len(rows[-1])
        ids = torch.tensor([row + [58100] * (longest - len(row)) for row in rows])
        batches.append((ids, (ids != 58100).long()))

    def run(rows: int = 64) -> None:
        options = {"num_beams": BEAMS, "max_new_tokens": ANSWER, "min_new_tokens": ANSWER}
        for ids, mask in batches if rows == 64 else batches[:1]:
            with torch.inference_mode():
                model.generate(input_ids=ids[:rows], attention_mask=mask[:rows], **options)

    return Ready(run, warm=lambda: run(8))


# ---- a live stream ---------------------------------------------------------------------------------------------------


def listener() -> Ready:
    """Seconds of work per second of audio: the listener's own stream, chunk by chunk as a microphone gives it."""
    import time

    import torch

    import glassformer as gf
    from glassformer.pipelines.transcribe import transcribe_stream

    torch.set_num_threads(1)
    model = gf.load("listener")
    wave = speech()[: 20 * 16000]
    chunks = wave.split(1600)

    def run() -> float:
        start = time.process_time()
        for _ in transcribe_stream(model, chunks, rate=16000):
            pass
        return (time.process_time() - start) / (len(wave) / 16000)

    return Ready(run, {"audio": "20 s in chunks of 0.1 s, one thread"})


WORKLOADS = (
    Workload(
        name="embed",
        title="embed 10,000 sentences, from text to vectors",
        contenders={
            "glassformer fp32": ours_embed("fp32"),
            "glassformer int8": ours_embed("int8"),
            "sentence-transformers fp32": sentence_transformers,
            "fastembed fp32": fastembed,
        },
        today="sentence-transformers fp32",
        targets=(
            Target("glassformer fp32", "sentence-transformers fp32", 0.5),
            Target("glassformer fp32", "fastembed fp32", 1.0),
        ),
        limited_by="oneDNN's products, as in MiniLM 32 × 128; sentence-transformers sorts by length too, so that both "
        "pad little",
        unit="s",
        rounds=1,
    ),
    Workload(
        name="whisper",
        title="Whisper tiny.en, 60 s of speech",
        contenders={
            "glassformer int8": ours_transcribe("int8"),
            "glassformer fp32": ours_transcribe("fp32"),
            "faster-whisper int8": faster_whisper,
            "HF fp32": hf_whisper,
        },
        today="HF fp32",
        targets=(Target("glassformer int8", "faster-whisper int8", 1.0),),
        operations={"glassformer int8": layers(4, 384, 1500, SECONDS // 30)},  # the encoder alone
        limited_by="before the encoder's attention (1,500 × 1,500) was computed in bfloat16, 26 % were attention, 22 % "
        "int8 products, 5 % products with float16 weights, 6 % attention to the encoder's 1,500 keys at every token; "
        "windows run one after the other, because each starts where the previous one ended",
        rounds=3,
    ),
    Workload(
        name="translate",
        title="Marian-sized translation, 200 sentences, beam 4",
        contenders={
            "glassformer int8": ours_translate("int8"),
            "CTranslate2 int8": ct2_translate("int8"),
            "HF fp32": hf_translate,
        },
        today="HF fp32",
        targets=(Target("glassformer int8", "CTranslate2 int8", 1.0),),
        # 14 m² of each decoder layer and the vocabulary, for every beam and token; the encoder is left out
        operations={"glassformer int8": TRANSLATIONS * BEAMS * ANSWER * 2 * (6 * 14 * 512**2 + 58101 * 512)},
        limited_by="44 % are int8 products (the vocabulary of 58,101 for every beam), 8 % attention, 7 % log-softmax "
        "and selecting candidates from it; the rest are calls of small operators and reordering the caches of beams",
        unit="s",
        rounds=1,
    ),
    Workload(
        name="listener",
        title="streaming listener, share of real time on one core",
        contenders={"glassformer fp32": listener},
        targets=(Target("glassformer fp32", "real time", 0.03),),
        bytes_read={"glassformer fp32": 4 * 1.75e6 / 0.12},  # all weights for every chunk of three rows
        limited_by="every 120 ms, six blocks process three rows: calls of small operators take longer than their "
        "arithmetic; a fifth is the word search with the n-gram model, in Python",
        unit="×",
        rounds=3,
    ),
)
