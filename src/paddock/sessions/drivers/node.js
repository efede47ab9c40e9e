// The driver of sessions of Node.js: it evaluates each text as node's own prompt does, which keeps `const` constant and
// understands `await` at the top. It reads requests from descriptor 3 and answers with frames: four bytes of length
// (little-endian) and JSON.
'use strict';
const { writeSync } = require('node:fs');
const { PassThrough, Writable } = require('node:stream');
const net = require('node:net');
const repl = require('node:repl');
const util = require('node:util');
const vm = require('node:vm');

const MAX_TEXT_CHARS = 256 * 1024;
const channel = new net.Socket({ fd: 3, readable: true, writable: true });
const { stringify, parse } = JSON;
// Node's own `write` leaves output for the next text: what does not fit into the pipe, and everything after an interrupt,
// which leaves its stream in the state of writing.
function replaceWrite(stream) {
  const file = stream.fd;
  stream._handle?.setBlocking?.(true);
  const write = (chunk, encoding, done) => {
    const data = Buffer.from(chunk, typeof encoding === 'string' ? encoding : 'utf8');
    for (let written = 0; written < data.length; ) written += writeSync(file, data, written);
    const call = typeof encoding === 'function' ? encoding : done;
    if (typeof call === 'function') process.nextTick(call);
    return true;
  };
  stream.write = write;
  return write;
}
const print = replaceWrite(process.stdout);
replaceWrite(process.stderr);

function send(message) {
  const body = Buffer.from(stringify(message, (_, value) => (typeof value === 'string' ? value.toWellFormed?.() ?? value : value)));
  const head = Buffer.alloc(4);
  head.writeUInt32LE(body.length);
  channel.write(Buffer.concat([head, body]));
}

const shown = util.inspect;
// Only for texts with `await`, which node's prompt rewrites and a script refuses.
const prompt = repl.start({
  prompt: '', input: new PassThrough(), output: new Writable({ write: (chunk, encoding, done) => done() }),
  terminal: false, useGlobal: true,
});
let answer = null;
prompt._domain.removeAllListeners('error');
prompt._domain.on('error', (error) => answer(error));
Object.defineProperty(globalThis, '_', { value: undefined, writable: true, configurable: true });

function show(value) {
  const text = shown(value).slice(0, MAX_TEXT_CHARS);
  print(text + '\n');
  const bundle = { 'text/plain': text };
  send({ display: bundle });
}
globalThis.display = show;

function explain(error) {
  let text;
  try {
    text = error instanceof Error || util.types.isNativeError(error) ? String(error.stack) : `Uncaught ${shown(error)}`;
  } catch {
    text = 'Uncaught';
  }
  const own = text.split('\n').filter((line) => !/^ {4}at (?!.*In \[\d+\])/.test(line));
  print(own.join('\n') + '\n');
  const place = /In \[\d+\]:(\d+)/.exec(text);
  return {
    exit_code: 1,
    error: {
      name: String((error && error.name) || 'Error').slice(0, 100),
      message: String((error && error.message) || shown(error)).slice(0, 2000),
      line: place ? Number(place[1]) : null,
    },
  };
}

let finish = null;
class Exit extends Error {}
process.exit = (code) => {
  process.exitCode = undefined;
  if (finish === null) return;
  const number = Number(code ?? 0) & 255;
  finish(number ? { exit_code: number, error: { name: 'Exit', message: String(number) } } : { exit_code: 0 });
  throw new Exit();
};
process.on('uncaughtException', (error) => {
  if (error instanceof Exit) return;
  const end = explain(error);
  if (finish !== null) finish(end);
});

function compile(code, filename) {
  const options = { filename, importModuleDynamically: vm.constants && vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER };
  if (/^\s*\{/.test(code) && !/;\s*$/.test(code)) {
    try {
      return new vm.Script(`(${code.trimEnd()})`, options);
    } catch {
      // It is a block.
    }
  }
  return new vm.Script(code, options);
}

function run({ code, number }) {
  const name = `In [${number}]`;
  finish = (end) => {
    finish = null;
    send({ done: end });
  };
  const mine = finish;
  answer = (error, value) => {
    if (finish !== mine) return;
    if (error) {
      const cause = error instanceof repl.Recoverable ? error.err : error;
      finish(explain(cause));
      return;
    }
    if (value !== undefined) {
      globalThis._ = value;
      show(value);
    }
    finish({ exit_code: 0 });
  };
  let script;
  try {
    script = compile(code, name);
  } catch (error) {
    if (/\bawait\b/.test(code)) prompt.eval(`${code}\n`, prompt.context, name, (...end) => answer(...end));
    else answer(error);
    return;
  }
  try {
    answer(null, script.runInThisContext({ breakOnSigint: true, displayErrors: false }));
  } catch (error) {
    if (finish === mine) finish(explain(error)); // also `throw undefined`
  }
}

process.on('SIGINT', () => {
  if (finish !== null) finish({ exit_code: 130, error: { name: 'Interrupt', message: '' } });
});

let received = Buffer.alloc(0);
channel.on('data', (data) => {
  received = Buffer.concat([received, data]);
  while (received.length >= 4) {
    const size = received.readUInt32LE();
    if (received.length < 4 + size) break;
    const request = parse(received.subarray(4, 4 + size).toString());
    received = received.subarray(4 + size);
    run(request);
  }
});
channel.on('end', () => process.kill(process.pid, 'SIGKILL'));
send({ ready: true });
