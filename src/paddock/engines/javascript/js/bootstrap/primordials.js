// Everything that the bootstrap uses later, captured before a program can replace it. Called through `apply`.
const global = globalThis;
const { apply, construct, ownKeys, defineProperty, getPrototypeOf, setPrototypeOf } = Reflect;
const { freeze, seal, create, keys, getOwnPropertyDescriptor, getOwnPropertyNames, getOwnPropertySymbols } = Object;
const JsonObject = JSON;
const { stringify, parse, rawJSON, isRawJSON } = JSON;
const { isSafeInteger, isInteger, isFinite } = Number;
const { isView } = ArrayBuffer;
const { fromCharCode } = String;
const { isArray } = Array;
const { min, max, imul, trunc, floor, round, sqrt } = Math;
const StringOf = String;
const NumberOf = Number;
const BigIntOf = BigInt;
const NativePromise = Promise;
const NativeError = Error;
const NativeAggregate = AggregateError;
const NativeTypeError = TypeError;
const NativeRangeError = RangeError;
const NativeReferenceError = ReferenceError;
const NativeProxy = Proxy;
const NativeDate = Date;
const NativeIterator = Iterator;
const NativeRegExp = RegExp;
const NativeBuffer = ArrayBuffer;
const then = Promise.prototype.then;
const reject = Promise.reject;
const charCodeAt = String.prototype.charCodeAt;
const unitAt = Function.prototype.call.bind(charCodeAt); // for loops: no list of arguments per call
const slice = String.prototype.slice;
const indexOf = String.prototype.indexOf;
const toWellFormed = String.prototype.toWellFormed;
const { repeat, padStart, padEnd, toLowerCase, trim } = String.prototype;
const exec = RegExp.prototype.exec;
const join = Array.prototype.join;
const wallNow = Date.now;
const dateText = Date.prototype.toString;
const mapGet = Map.prototype.get;
const mapSet = Map.prototype.set;
const mapDelete = Map.prototype.delete;
const captureStackTrace = Error.captureStackTrace;
const Table = Map;
const Unique = Set;
const Bytes = Uint8Array;
const toBase64 = Uint8Array.prototype.toBase64;
const ObjectPrototype = Object.prototype;
const FunctionPrototype = Function.prototype;
const objectText = Object.prototype.toString;
const errorText = Error.prototype.toString;
const functionText = Function.prototype.toString;
const Places = WeakMap;
const placeGet = WeakMap.prototype.get;
const placeSet = WeakMap.prototype.set;
const bigText = BigInt.prototype.toString;
const { parseInt: toInteger, parseFloat: toFloat } = global;
const { isError } = Error;
const { forEach: mapForEach, clear: mapClear } = Map.prototype;
const { forEach: setForEach, add: setAdd } = Set.prototype;
const dateIso = Date.prototype.toISOString;
const regExpText = RegExp.prototype.toString;
const isEnumerable = Object.prototype.propertyIsEnumerable;
const hasInstance = Function.prototype[Symbol.hasInstance];
const fromBase64 = Uint8Array.fromBase64;
const transferBuffer = ArrayBuffer.prototype.transfer;
const TypedArrayPrototype = getPrototypeOf(Uint8Array.prototype);
const typedFill = TypedArrayPrototype.set;
const getterOf = (holder, name) => getOwnPropertyDescriptor(holder, name).get;
const typedKind = getterOf(TypedArrayPrototype, Symbol.toStringTag); // undefined unless it is a typed array
const [typedLength, typedBuffer, typedOffset, typedBytes] = ["length", "buffer", "byteOffset", "byteLength"].map((name) => getterOf(TypedArrayPrototype, name));
const [viewBuffer, viewOffset, viewBytes] = ["buffer", "byteOffset", "byteLength"].map((name) => getterOf(DataView.prototype, name));
const bufferBytes = getterOf(ArrayBuffer.prototype, "byteLength");
const Constructors = { __proto__: null }; // by kind
for (const name of ["DataView", "Number", "String", "Boolean", "BigInt", "Symbol", "Date", "RegExp", "Object"]) Constructors[name] = global[name];
for (const name of ownKeys(global)) {
  const made = global[name];
  if (typeof made === "function" && getPrototypeOf(made) === getPrototypeOf(Uint8Array)) Constructors[name] = made;
}
const Errors = { __proto__: null, Error }; // the error types that a copy keeps
for (const name of ["EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError"]) Errors[name] = global[name];

// The kind of an object, by methods that work only on such objects, so that a property cannot fake it; "" for all others.
const BRANDS = [
  ["Map", getterOf(Map.prototype, "size")], ["Set", getterOf(Set.prototype, "size")],
  ["Date", Date.prototype.getTime], ["RegExp", getterOf(RegExp.prototype, "global")],
  ["ArrayBuffer", bufferBytes], ["DataView", viewBytes],
  ["Number", Number.prototype.valueOf], ["String", String.prototype.valueOf], ["Boolean", Boolean.prototype.valueOf],
  ["BigInt", BigInt.prototype.valueOf], ["Symbol", Symbol.prototype.valueOf],
  ["WeakMap", WeakMap.prototype.has], ["WeakSet", WeakSet.prototype.has], ["WeakRef", WeakRef.prototype.deref],
];
const valueOfKind = { __proto__: null };
for (const [kind, method] of BRANDS) valueOfKind[kind] = method;
function kindOf(object) {
  if (isArray(object)) return "Array";
  const made = getPrototypeOf(object);
  if (made === ObjectPrototype || made === null) return "";
  const typed = apply(typedKind, object, []);
  if (typed !== undefined) return typed;
  for (let i = 0; i < BRANDS.length; i++) {
    try {
      apply(BRANDS[i][1], object, [object]);
      return BRANDS[i][0];
    } catch {
      // it is none of these
    }
  }
  if (isError(object)) return "Error";
  return apply(hasInstance, NativePromise, [object]) ? "Promise" : "";
}
// The bytes of a typed array, a DataView or an ArrayBuffer, not copied; null for another object.
function bytesOf(value) {
  if (typeof value !== "object" || value === null) return null;
  if (apply(typedKind, value, []) !== undefined) return new Bytes(apply(typedBuffer, value, []), apply(typedOffset, value, []), apply(typedBytes, value, []));
  if (isView(value)) return new Bytes(apply(viewBuffer, value, []), apply(viewOffset, value, []), apply(viewBytes, value, []));
  try {
    apply(bufferBytes, value, []);
  } catch {
    return null;
  }
  return new Bytes(value);
}
