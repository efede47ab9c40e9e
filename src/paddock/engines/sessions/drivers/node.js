// The driver of sessions of Node.js: it evaluates each text as node's own prompt does, which understands `await` at the
// top. It reads requests from descriptor 3 and answers with frames: four bytes of length (little-endian) and JSON.
//
// V8 never forgets a `let`, `const` or `class` at the top of a script, not even one that failed. Therefore each of them
// becomes a `var`, which is a property of the global object and can be declared again. An `import` becomes `await import`.
'use strict';
// Programs may declare the names of the language again, which then hold here, too.
const context = globalThis;
const { Buffer, Error, Map, Number, Object, ReferenceError, Reflect, Set, String, SyntaxError, TypeError, process } = context;
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
Object.defineProperty(context, '_', { value: undefined, writable: true, configurable: true });

function show(value) {
  const text = shown(value).slice(0, MAX_TEXT_CHARS);
  print(text + '\n');
  const bundle = { 'text/plain': text };
  send({ display: bundle });
}
context.display = show;

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

// --- declarations and imports ------------------------------------------------------------------------------------------

// acorn is loaded by the first text that needs it: that takes a tenth of the time in which node starts.
const DECLARES = /\b(?:class|const|export|function|import|let|var)\b/;
let acorn = null;
function parseJavaScript(code) {
  if (acorn === null) vm.compileFunction(ACORN, ['exports', 'module'])((acorn = {}), {});
  return acorn.parse(code, SYNTAX);
}

const SYNTAX = { ecmaVersion: 'latest', allowImportExportEverywhere: true, allowAwaitOutsideFunction: true };

function boundNames(pattern) {
  if (!pattern) return [];
  if (pattern.type === 'Identifier') return [pattern.name];
  const parts = pattern.elements ?? pattern.properties ?? [pattern.left ?? pattern.argument ?? pattern.value];
  return parts.flatMap(boundNames);
}

function writeImport({ specifiers, source, attributes = [] }, code) {
  const cut = ({ start, end }) => code.slice(start, end);
  const options = attributes.length ? `, { with: { ${attributes.map(cut).join()} } }` : '';
  const loaded = `await import(${source.raw}${options})`;
  if (specifiers.length === 0) return `void ${loaded};`;
  const space = specifiers.find(({ type }) => type === 'ImportNamespaceSpecifier')?.local.name;
  const parts = specifiers.filter(({ type }) => type !== 'ImportNamespaceSpecifier').map(({ imported, local }) => {
    const key = imported ? cut(imported) : 'default';
    const message = `The requested module '${source.value}' does not provide an export named '${imported?.name ?? imported?.value ?? key}'`;
    return `${key}: ${local.name} = (() => { throw new SyntaxError(${stringify(message)}); })()`;
  });
  const pattern = parts.length ? `{ ${parts.join(', ')} }` : '';
  if (!space) return `var ${pattern} = ${loaded};`;
  return `var ${space} = ${loaded}${pattern && `, ${pattern} = ${space}`};`;
}

// The names that are assigned somewhere in a text, with whatever scope.
function assignedNames(body) {
  const found = new Set();
  const todo = [...body];
  for (let node; (node = todo.pop()); ) {
    const target = { AssignmentExpression: 'left', ForInStatement: 'left', ForOfStatement: 'left', UpdateExpression: 'argument' }[node.type];
    for (const name of target ? boundNames(node[target]) : []) found.add(name);
    for (const child of Object.values(node).flat()) if (typeof child?.type === 'string') todo.push(child);
  }
  return found;
}

// Returns the text with declarations that last, each on its line, and the names that it declares and assigns. V8 reports
// what acorn cannot read.
function rewrite(code) {
  const names = { let: [], const: [], var: [] };
  const unchanged = { text: code, names, assigned: new Set() };
  if (constants.size === 0 && !DECLARES.test(code)) return unchanged;
  let body;
  try {
    ({ body } = parseJavaScript(code));
  } catch {
    return unchanged;
  }
  const edits = [];
  for (let node of body) {
    const { start, end, declaration } = node;
    if (node.type === 'ImportDeclaration') {
      const lines = code.slice(start, end).replace(/[^\n]/g, '');
      edits.push([start, end, writeImport(node, code) + lines]);
      names.const.push(...node.specifiers.map(({ local }) => local.name));
    } else if (declaration?.declarations || declaration?.id) {
      edits.push([start, declaration.start, '']); // `export` or `export default`
      node = declaration;
    }
    if (node.type === 'FunctionDeclaration') names.var.push(node.id.name);
    else if (node.type === 'ClassDeclaration') {
      names.let.push(node.id.name);
      edits.push([node.start, node.start, `var ${node.id.name} = `], [node.end, node.end, ';']);
    } else if (node.type === 'VariableDeclaration' && node.kind in names) {
      const { kind, declarations } = node;
      names[kind].push(...declarations.flatMap(({ id }) => boundNames(id)));
      edits.push([node.start, node.start + kind.length, 'var'.padEnd(kind.length)]);
      for (const { id, init } of declarations) if (!init && kind === 'let') edits.push([id.end, id.end, ' = undefined']);
    }
  }
  let text = '';
  let done = 0;
  for (const [start, end, added] of edits) {
    text += code.slice(done, start) + added;
    done = end;
  }
  return { text: text + code.slice(done), names, assigned: assignedNames(body) };
}

const shared = (name, property) => Reflect.defineProperty(context, name, { enumerable: true, configurable: true, ...property });
const constants = new Set(); // names of `const`
let keepsLast = true; // whether `_` is the last value, until a program uses this name for its own
let unreached = new Map(); // names whose declaration did not run yet, with the properties that they had before

// A property that throws when it is assigned is slow to read. Therefore only texts that assign its name see it.
function guard(name, value) {
  const set = () => { throw new TypeError('Assignment to constant variable.'); };
  shared(name, { get: () => value, set });
}

// Until its declaration runs, reading a name is an error, as in ECMA-262.
function declareLater(name, isConstant, isAssigned) {
  const previous = Reflect.getOwnPropertyDescriptor(context, name);
  const property = {
    get() { throw new ReferenceError(`Cannot access '${name}' before initialization`); },
    set(value) {
      unreached.delete(name);
      constants[isConstant ? 'add' : 'delete'](name);
      if (isConstant && isAssigned) guard(name, value);
      else shared(name, { value, writable: true });
    },
  };
  if (shared(name, property)) unreached.set(name, previous);
}

// A `var` replaces what cannot be assigned: a `const`, and properties of node like `crypto`.
function declareVar(name) {
  const { get, set } = Reflect.getOwnPropertyDescriptor(context, name) ?? {};
  if (constants.delete(name) || (get && !set)) shared(name, { value: undefined, writable: true });
}

function declare(names, assigned) {
  if ([...assigned, ...Object.values(names).flat()].includes('_')) keepsLast = false;
  for (const name of assigned) if (constants.has(name)) guard(name, context[name]);
  for (const name of names.var) declareVar(name);
  for (const name of names.let) declareLater(name, false);
  for (const name of names.const) declareLater(name, true, assigned.has(name));
}

// A declaration that its text did not reach leaves what was there before.
function withdrawUnreached() {
  for (const [name, previous] of unreached) {
    delete context[name];
    if (previous) Reflect.defineProperty(context, name, previous);
  }
  unreached = new Map();
}

function run({ code: original, number }) {
  const name = `In [${number}]`;
  const { text: code, names, assigned } = rewrite(original);
  finish = (end) => {
    finish = null;
    withdrawUnreached();
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
      if (keepsLast) context._ = value;
      show(value);
    }
    finish({ exit_code: 0 });
  };
  declare(names, assigned);
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
