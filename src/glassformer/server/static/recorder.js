// @ts-nocheck TypeScript has no types for audio worklets
// An audio worklet: passes samples on in blocks of 2048.
class Recorder extends AudioWorkletProcessor {
  constructor() { super(); this.buffer = new Float32Array(2048); this.at = 0; }
  process(inputs) {
    for (const x of inputs[0]?.[0] ?? []) {
      this.buffer[this.at++] = x;
      if (this.at === this.buffer.length) { this.port.postMessage(this.buffer.slice()); this.at = 0; }
    }
    return true;
  }
}
registerProcessor("recorder", Recorder);
