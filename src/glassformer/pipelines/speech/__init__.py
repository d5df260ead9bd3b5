"""Speech recognition: streaming CTC models and Whisper."""
