// Runs graphs with ONNX Runtime, one thread; see ort.go. The argument is a
// folder in which onnxruntime-node is installed.
//
// Each line of standard input is a request, each line of standard output its
// answer:
//   {"model": path, "feeds": {name: {"dims": [...], "data": [...]}},
//    "carry": {output: input}, "repeat": n}
//   {"outputs": {name: {"dims": [...], "data": [...]}}, "ms": [...]}
// A model and what it was fed stay until replaced. Outputs under "carry" are
// not answered but become those inputs. "repeat" runs the same feeds n times
// (default 1) and "ms" holds each run's time.
'use strict';
const path = require('path');
const readline = require('readline');
const ort = require(path.join(path.resolve(process.argv[1]), 'node_modules', 'onnxruntime-node'));

async function main() {
  const models = new Map();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    let model = models.get(request.model);
    if (!model) {
      const options = { intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: 'sequential' };
      model = { session: await ort.InferenceSession.create(request.model, options), feeds: {} };
      models.set(request.model, model);
    }
    for (const [name, t] of Object.entries(request.feeds || {})) {
      model.feeds[name] = new ort.Tensor('float32', Float32Array.from(t.data), t.dims);
    }
    const ms = [];
    let results;
    for (let i = 0; i < (request.repeat || 1); i++) {
      const start = process.hrtime.bigint();
      results = await model.session.run(model.feeds);
      ms.push(Number(process.hrtime.bigint() - start) / 1e6);
    }
    const outputs = {};
    for (const [name, t] of Object.entries(results)) {
      const input = (request.carry || {})[name];
      if (input) model.feeds[input] = t;
      else outputs[name] = { dims: t.dims, data: Array.from(t.data) };
    }
    process.stdout.write(JSON.stringify({ outputs, ms }) + '\n');
  }
}
main().catch((e) => { console.error(String(e)); process.exit(1); });
