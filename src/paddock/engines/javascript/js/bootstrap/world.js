// The global object of the program: names that are not listed here are deleted, also those of a newer engine.
// Compat scripts and computations have only the names of `PLAIN`.
const PLAIN = [
  "Object", "Function", "Array", "Number", "Boolean", "String", "Symbol", "BigInt", "Date", "Promise", "RegExp", "Math", "JSON", "Reflect", "Proxy",
  "Error", "AggregateError", "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError", "Map", "Set", "WeakMap", "WeakSet",
  "ArrayBuffer", "DataView", "Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
  "BigInt64Array", "BigUint64Array", "Float32Array", "Float64Array", "Iterator", "Intl", "parseInt", "parseFloat", "isNaN", "isFinite",
  "encodeURIComponent", "decodeURIComponent", "encodeURI", "decodeURI", "undefined", "NaN", "Infinity", "eval",
];
const FURTHER = [
  "globalThis", "escape", "unescape", "Temporal", "WeakRef", "FinalizationRegistry", "Float16Array", "SuppressedError", "DisposableStack",
  "AsyncDisposableStack",
];
function harden() {
  const allowed = new Set([...PLAIN, ...FURTHER]);
  for (const name of ownKeys(global)) {
    if (!allowed.has(name)) delete global[name];
  }
  defineProperty(Error, "prepareStackTrace", { get: freeze(() => (positions === null ? undefined : formatStack)), set: freeze(() => {}), configurable: false, enumerable: false });
  seal(Object.prototype);
  seal(Array.prototype);
  openForOwn(Function.prototype);
  for (const made of [function () {}, async function () {}, function* () {}, async function* () {}]) freeze(getPrototypeOf(made));
}

// Freezing a prototype makes `object.property = value` throw for every inheriting object (the "override mistake"). Therefore an
// accessor replaces each writable method; it defines the property on the inheriting object and never on the prototype.
function openForOwn(prototype) {
  for (const name of ownKeys(prototype)) {
    const { value, writable } = Object.getOwnPropertyDescriptor(prototype, name);
    if (!writable) continue;
    const accessors = {
      get() { return value; },
      set(own) {
        if (this === prototype) throw new NativeTypeError("Cannot assign to read only property '" + textOf(name) + "' of a frozen prototype");
        defineProperty(this, name, { value: own, writable: true, configurable: true, enumerable: true });
      },
    };
    defineProperty(prototype, name, { get: freeze(accessors.get), set: freeze(accessors.set), configurable: false, enumerable: false });
  }
}

harden();
defineProperty(Math, "random", { value: random, writable: true, configurable: true, enumerable: false });
for (const service of [setTimeout, clearTimeout, sleep]) provide(service.name, freeze(service));
for (const name of ["race", "any", "all"]) provide(name, racing(name), Promise);
provide("parse", exactParse, JSON);
provide("stringify", exactStringify, JSON);
provide("servers", servers);
provide("console", console);

// Names that are not of the language and reach nothing outside: WinterTC's minimum common API, as far as it is computation.
const COMMON = [
  setInterval, clearInterval, queueMicrotask, structuredClone, atob, btoa, reportError, TextEncoder, TextDecoder, DOMException, Event,
  CustomEvent, EventTarget, AbortSignal, AbortController, Crypto, SubtleCrypto, Performance,
];
for (const each of COMMON) provide(each.name, each);
provide("FinalizationRegistry", FinalRegistry);
provide("self", global);
provide("crypto", crypto);
provide("performance", performance);
const LOADED = ["URL", "URLSearchParams"];
for (const name of LOADED) {
  const given = () => library("url")[name];
  const settle = (value) => {
    provide(name, value);
    return value;
  };
  const { get, set } = { get() { return settle(given()); }, set(value) { settle(value); } };
  defineProperty(global, name, { get, set, configurable: true, enumerable: false });
}
const ADDED = [...FURTHER, "self", "crypto", "performance", ...LOADED];
for (const each of COMMON) ADDED[ADDED.length] = each.name;

// Removes what compat scripts and computations do not have.
function reduce(world) {
  for (let i = 0; i < ADDED.length; i++) delete world[ADDED[i]];
}
return turn;
