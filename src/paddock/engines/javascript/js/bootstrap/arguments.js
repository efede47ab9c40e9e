// The arguments of a call as JSON. If JSON would silently lose a value, the call is rejected before anything is sent.
const PROMISE_TEXT = "[object Promise]";
const [DEEP, GREATEST, ENCODED] = [200, NumberOf.MAX_SAFE_INTEGER, 100];
let quoted = false; // whether an incoming string already contained `[object Promise]`
let encoded = []; // paths of byte arrays, as base64, in the last arguments; the host knows whether the tool accepts them

// Whether arguments may contain what JSON loses, or a number that has lost digits. Most do not and need no replacer.
function isOdd(value, depth) {
  if (depth > DEEP || isView(value)) return true;
  if (isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const member = value[i];
      const type = typeof member;
      if (type === "object" ? member !== null && isOdd(member, depth + 1) : isOddOf(type, member)) return true;
    }
    return false;
  }
  for (const key in value) {
    const member = value[key];
    const type = typeof member;
    if (type === "object" ? member !== null && isOdd(member, depth + 1) : isOddOf(type, member)) return true;
  }
  return false;
}
const isOddOf = (type, member) =>
  type === "number" ? member > GREATEST || member < -GREATEST : type === "function" || type === "symbol";
const holds = (text, part) => apply(indexOf, text, [part]) >= 0;

// The JSON of the arguments of `call`, such as `servers.x.tool`. Throws TypeError if a value would be lost.
const DEEPEST = 1000; // far more than the host accepts, but before a walk overflows the stack
function written(call, values) {
  encoded = [];
  if (rawResults) return stringify(values);
  if (!remembers && !isOdd(values, 0)) {
    try {
      const body = stringify(values);
      if (body === undefined || !(holds(body, "{}") || holds(body, "null") || holds(body, PROMISE_TEXT))) return body;
    } catch {
      // The replacer finds the path, or the same error is thrown again.
    }
  }
  return stringify(values, walking("arguments", (holder, key, member, here) => {
    if (here.holders.length > DEEPEST) throw new NativeRangeError("The program returned or passed a value nested more than 200 levels deep");
    const lost = lostOf(holder, key, member, here);
    if (lost !== "") throw new NativeTypeError(call + " was not called: " + here.path() + " is " + lost);
    if (typeof member !== "object") return watchedNumber(holder, key, member, here);
    return isBytes(member) ? base64(member, here) : member;
  }));
}

// What JSON would lose of a member, and what to write instead; "" if nothing.
function lostOf(holder, key, member, here) {
  switch (typeof member) {
    case "undefined": return isArray(holder) ? lostItem(holder[key], here) : "";
    case "function": return "a function, which JSON leaves out: call it";
    case "symbol": return "a symbol, which JSON leaves out: use its description";
    case "bigint": return "a BigInt of more than " + MAX_DIGITS + " digits, which JSON readers reject: use String(n)";
    case "number": return isFinite(member) ? "" : member + ", in JSON null: check the calculation, or leave it out";
    case "string": return holds(member, PROMISE_TEXT) && !isQuoted() ? "a string that contains " + PROMISE_TEXT + ": put `await` before the promise" : "";
    case "object": return member === null ? lostDate(holder[key]) : lostObject(member, here.holders);
  }
  return "";
}
// The arguments of the SDK's methods may contain `undefined` for omitted ones.
function lostItem(value, here) {
  if (value !== undefined) return "an object whose toJSON returns undefined, in JSON null: send what it holds";
  return here.steps.length > 2 ? "undefined, in JSON null: write null, or leave it out of the array" : "";
}
const isQuoted = () => quoted || holds(apply(functionText, program, []), PROMISE_TEXT);
const lostDate = (value) => (value instanceof NativeDate ? "a Date without a time, in JSON null: check the value that it was made from" : "");
function lostObject(value, holders) {
  for (let i = 0; i < holders.length; i++) if (holders[i] === value) return "an object that contains it: JSON has no cycles, send its id instead";
  if (isBytes(value)) return encoded.length < ENCODED ? "" : "beyond the " + ENCODED + " byte arrays that a call takes: use bytes.toBase64()";
  if (isRawJSON(value)) return "";
  for (let i = 0; i < EMPTIED.length; i++) if (value instanceof EMPTIED[i][0]) return EMPTIED[i][1];
  if (isArray(value) || keys(value).length > 0) return "";
  const made = getPrototypeOf(value);
  if (made === null || made === ObjectPrototype) {
    if (ownKeys(value).length === 0) return "";
    return "an object of which JSON writes no member" + tagOf(value) + ", in JSON {}: use strings as keys";
  }
  if (value instanceof NumberOf && !isFinite(NumberOf(value))) return NumberOf(value) + ", in JSON null: check the calculation";
  for (let i = 0; i < BOXES.length; i++) if (value instanceof BOXES[i]) return "";
  return "an object without data of its own" + tagOf(value) + ", in JSON {}: send a plain object";
}
const BOXES = [NumberOf, StringOf, Boolean];
function tagOf(value) {
  const tag = apply(objectText, value, []);
  return tag === "[object Object]" ? "" : " (" + cut(apply(slice, tag, [8, -1]), NAME) + ")";
}

function watchedNumber(holder, key, member, here) {
  const sent = exact(holder, key, member, here);
  const own = sent === member && typeof member === "number";
  if (own && isTooLarge(member) && apply(mapGet, literals, [member]) === undefined) tellInexact(here, member, TOO_LARGE);
  return sent;
}

const isBytes = (value) => isView(value) || value instanceof NativeBuffer;
function base64(value, here) {
  const bytes = isView(value) ? new Bytes(value.buffer, value.byteOffset, value.byteLength) : new Bytes(value);
  const at = [];
  for (let i = 1; i < here.steps.length; i++) at[i - 1] = here.steps[i];
  encoded[encoded.length] = at;
  return apply(toBase64, bytes, []);
}
