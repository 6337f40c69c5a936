// Runs graphs with ONNX Runtime, one thread, for parity tests and timings.
// PREFDT_ORT is a folder in which onnxruntime-node is installed.
//
// Each line of standard input is a request, each line of standard output its
// answer:
//   {"model": path, "feeds": {name: {"dims": [...], "data": [...]}},
//    "carry": {output: input}, "repeat": n}
//   {"outputs": {name: {"dims": [...], "data": [...]}}, "ms": [...]}
// A model stays loaded until another is named. Outputs under "carry" are not
// answered but fed to those inputs in the next request. "repeat" runs the same
// feeds n times (default 1) and "ms" holds each run's time.
'use strict';
const path = require('path');
const readline = require('readline');
const ort = require(path.join(path.resolve(process.env.PREFDT_ORT), 'node_modules', 'onnxruntime-node'));

async function main() {
  let session, loaded, kept = {};
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    if (request.model !== loaded) {
      session = await ort.InferenceSession.create(request.model, { intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: 'sequential' });
      loaded = request.model;
    }
    const feeds = kept;
    for (const [name, t] of Object.entries(request.feeds)) {
      feeds[name] = new ort.Tensor('float32', Float32Array.from(t.data), t.dims);
    }
    const ms = [];
    let results;
    for (let i = 0; i < (request.repeat || 1); i++) {
      const start = process.hrtime.bigint();
      results = await session.run(feeds);
      ms.push(Number(process.hrtime.bigint() - start) / 1e6);
    }
    const outputs = {};
    kept = {};
    for (const [name, t] of Object.entries(results)) {
      const input = (request.carry || {})[name];
      if (input) kept[input] = t;
      else outputs[name] = { dims: t.dims, data: Array.from(t.data) };
    }
    process.stdout.write(JSON.stringify({ outputs, ms }) + '\n');
  }
}
main().catch((e) => { console.error(String(e)); process.exit(1); });
