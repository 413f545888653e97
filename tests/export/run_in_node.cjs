// Runs exported folders with transformers.js: reads a list of calls from standard input, writes their outputs as JSON.
// Usage: node run_in_node.cjs FOLDER, where node_modules has @huggingface/transformers.
// A call has the folder of a model, the class that loads it, and inputs by name, each with type, dims and data. With
// `generate`, tokens are made greedily, and with `text` a tokenizer makes the inputs.
const { createRequire } = require("node:module");
const { readFileSync, writeSync } = require("node:fs");
const { join } = require("node:path");

const js = createRequire(join(process.argv[2], "package.json"))("@huggingface/transformers");
js.env.allowRemoteModels = false;
js.env.useFSCache = false;

function tensor({ type, dims, data }) {
  return new js.Tensor(type, type === "int64" ? BigInt64Array.from(data, BigInt) : Float32Array.from(data), dims);
}

function plain(value) {
  return { dims: value.dims, data: Array.from(value.data, Number) };
}

async function run(call) {
  const model = await js[call.class].from_pretrained(call.folder, { dtype: "fp32", device: "cpu" });
  let inputs = Object.fromEntries(Object.entries(call.inputs ?? {}).map(([name, item]) => [name, tensor(item)]));
  if (call.text) {
    const tokenizer = await js.AutoTokenizer.from_pretrained(call.folder);
    inputs = tokenizer(call.text);
  }
  if (call.generate) return { tokens: plain(await model.generate({ ...inputs, ...call.generate })) };
  const found = await model(inputs);
  return Object.fromEntries(call.outputs.map((name) => [name, plain(found[name])]));
}

(async () => {
  const results = [];
  for (const call of JSON.parse(readFileSync(0, "utf8"))) results.push(await run(call));
  writeSync(1, JSON.stringify(results));
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
