"""Live transcription over a WebSocket: samples in, words out as they become final, and a growing attention map.

The client sends `{"rate": 16000}`, then pieces of float32 samples, then `{"end": true}`. Each answer is JSON with the
new words, the seconds received so far, and the new rows of A (last layer, mean over heads) as base64 of uint8.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from glassformer.errors import GlassError, InputError

router = APIRouter()
AT_ONCE = 4  # connections
PIECE = 1 << 17  # bytes of one message
EVERY = 0.4  # seconds of audio between two updates of the map
_open = 0


class LiveTranscript:
    """The transcript of one recording as it arrives."""

    def __init__(self, model: Any, rate: int, seconds: float) -> None:
        from glassformer import lens
        from glassformer.data.audio import Resampler
        from glassformer.pipelines.speech.charset import recognizer_config
        from glassformer.pipelines.speech.ctc_stream import CTCStream
        from glassformer.pipelines.transcribe import word_decoder

        self.model, self.limit = model, seconds
        recognizer = recognizer_config(model)
        self.stream, self.decoder = CTCStream(model, recognizer), word_decoder(recognizer)
        self.resampler = Resampler(rate, self.stream.rate)
        self.path = list(lens.attention_layers(model))[-1]
        self.waves: list[Any] = []
        self.rows, self.looked = 0, 0.0

    @property
    def seconds(self) -> float:
        return sum(len(wave) for wave in self.waves) / self.stream.rate

    def feed(self, data: bytes | None) -> dict[str, Any]:
        """Process a chunk of samples; None ends the recording."""
        import numpy as np
        import torch

        with torch.inference_mode():
            if data is None:
                wave = self.resampler.finish()
                rows = [*self.stream.feed(wave), *self.stream.finish()]
            else:
                wave = self.resampler.feed(torch.from_numpy(np.frombuffer(data, "<f4").copy()).clamp(-1, 1))
                rows = self.stream.feed(wave)
            self.waves.append(wave)
            if self.seconds > self.limit:
                raise InputError(f"the recording takes more than {self.limit:g} seconds", "start again")
            words = [word for each in rows for word in self.decoder.feed(each)]
            if data is None:
                words += self.decoder.finish(self.stream.samples / self.stream.rate)
            answer: dict[str, Any] = {
                "seconds": round(self.seconds, 2),
                "words": [{"text": w.text, "start": w.start, "end": w.end, "known": w.known} for w in words],
                "pending": "" if data is None else self.decoder.pending,
                "end": data is None,
            }
            if data is None or self.seconds - self.looked >= EVERY:
                self.looked = self.seconds
                answer |= self._new_rows()
        return answer

    def _new_rows(self) -> dict[str, Any]:
        """Return the rows of A that have not been sent yet, averaged over the heads, and the spectrogram."""
        import torch

        from glassformer import lens
        from glassformer.core.audio import log_mel

        wave = torch.cat(self.waves)
        frames = log_mel(wave, self.model.config.mel)[None].float()
        if frames.shape[1] < 8:
            return {}
        with lens.trace(self.model, f"{self.path}.A") as run:
            self.model(frames)
        A = run[f"{self.path}.A"][0].mean(0)
        new = A[self.rows :]
        first, self.rows = self.rows, A.shape[0]
        mel = frames[0].T
        low, high = mel.min(), mel.max()
        shade = ((mel - low) / (high - low).clamp_min(1e-6) * 255).byte()
        scaled = (new.clamp(0, 1).sqrt() * 255).byte()
        return {
            "path": self.path,
            "first": first,
            "size": list(scaled.shape),
            "rows": base64.b64encode(scaled.contiguous().numpy().tobytes()).decode(),
            "bands": list(shade.shape),
            "mel": base64.b64encode(shade.contiguous().numpy().tobytes()).decode(),
        }


@router.websocket("/live")
async def live(socket: WebSocket) -> None:
    """Transcribe audio while it is received."""
    global _open
    models = socket.app.state.models
    await socket.accept()
    if _open >= AT_ONCE:
        await socket.send_json({"fact": f"{AT_ONCE} recordings are being transcribed", "remedy": "wait for one to end"})
        await socket.close(1013)
        return
    _open += 1
    loop = asyncio.get_running_loop()
    try:
        start = json.loads(await asyncio.wait_for(socket.receive_text(), 10))
        rate = int(start["rate"])
        if not 4000 <= rate <= 192_000:
            raise InputError(f"rate is {rate}", "choose 4000 to 192000 Hz")
        recognizer = await loop.run_in_executor(
            models.threads,
            models.imported,
            lambda: LiveTranscript(models.model("listener"), rate, models.limits.audio_seconds),
        )
        while True:
            message = await asyncio.wait_for(socket.receive(), 30)
            if message["type"] == "websocket.disconnect":
                return
            data = message.get("bytes")
            if data is not None and (len(data) > PIECE or len(data) % 4):
                raise InputError(f"the chunk has {len(data):,} bytes", f"send float32 samples, at most {PIECE:,} bytes")
            answer = await loop.run_in_executor(models.threads, recognizer.feed, data)
            await socket.send_json(answer)
            if answer["end"]:
                return
    except WebSocketDisconnect:
        return
    except GlassError as error:
        await socket.send_json({"fact": error.fact, "remedy": error.remedy})
    except (TimeoutError, KeyError, TypeError, ValueError):
        await socket.send_json({"fact": "the recording could not be processed", "remedy": "start again"})
    finally:
        _open -= 1
        if socket.client_state.name == "CONNECTED" and socket.application_state.name == "CONNECTED":
            await socket.close()
