// Reports of a program: its errors and its console lines.
const NO_TEXT = "[value without a text form]";
function textOf(value) {
  try {
    return typeof value === "symbol" ? apply(symbolText, value, []) : StringOf(value);
  } catch {
    return NO_TEXT;
  }
}
const symbolText = Symbol.prototype.toString;
const [NAME, TEXT, STACK, CAUSE, CAUSES] = [256, 65536, 8192, 1000, 5];
const cut = (text, length) => (text.length > length ? apply(slice, text, [0, length]) + "..." : text);

// Remembers where the program threw a value without a stack, and returns the value.
let lastThrown = null;
function marked(value) {
  if (rawResults) return value;
  try {
    if (value instanceof NativeError) return value;
  } catch {
    // a proxy, which has no stack either
  }
  const site = { stack: "" };
  captureStackTrace(site, marked);
  lastThrown = { value, site };
  return value;
}

// The report of a thrown value. Reading it may run guest code (getters, proxies), which affects only its own report.
function describe(thrown) {
  const report = { name: "Error", message: "", thrown: cut(textOf(thrown), TEXT), stack: "", causes: [], error: false };
  try {
    if (thrown instanceof NativeError) {
      report.error = true;
      report.name = cut(textOf(thrown.name), NAME);
      const message = textOf(thrown.message);
      report.message = cut(message, TEXT);
      report.stack = framesOf(thrown, message);
      const call = callOf(thrown);
      if (call !== "") report.causes[0] = call;
      if (thrown instanceof ToolError) addAnswer(report, thrown);
      addCauses(report.causes, thrown);
    } else {
      report.name = "Thrown";
      if (lastThrown !== null && lastThrown.value === thrown) report.stack = framesOf(lastThrown.site, "");
      report.message = report.thrown;
      const seen = shown(thrown);
      if (seen !== report.thrown && seen !== "{}") report.causes[0] = cut(seen, CAUSE);
    }
  } catch {
    report.message = report.thrown;
  }
  return report;
}

// Code and data of a server's error; the data is sent as JSON in a string.
function addAnswer(report, { code, data }) {
  if (typeof code !== "number") return;
  report.code = code;
  const text = data === undefined ? undefined : exactly(data, "data");
  if (text !== undefined && text.length <= TEXT) report.data = text;
}

// A stack without the message before it, which may have any length and may look like a position.
function framesOf(holder, message) {
  const stack = rawStack(holder);
  if (typeof stack !== "string") return "";
  const said = message === "" ? -1 : apply(indexOf, stack, [": " + message + "\n"]);
  const from = apply(indexOf, stack, ["\n    at ", said < 0 ? 0 : said + message.length]);
  return apply(slice, stack, from < 0 ? [0, STACK] : [from, from + STACK]);
}

// The call that an error belongs to, unless its message names the server.
function callOf(error) {
  if (rawResults || !(error instanceof ToolError) || typeof error.server !== "string") return "";
  if (apply(indexOf, textOf(error.message), [error.server]) >= 0) return "";
  return cut(error.server + "." + textOf(error.tool), NAME);
}

function addCauses(causes, thrown) {
  function add(value) {
    const call = callOf(value);
    causes[causes.length] = cut(rawResults ? textOf(value) : shown(value), CAUSE) + (call === "" ? "" : " (" + call + ")");
  }
  const errors = thrown instanceof NativeAggregate ? thrown.errors : [];
  for (let i = 0; i < min(errors.length, CAUSES); i++) add(errors[i]);
  const told = [thrown];
  for (let at = thrown; at instanceof NativeError && at.cause !== undefined && causes.length < CAUSES; ) {
    at = at.cause;
    for (let i = 0; i < told.length; i++) if (told[i] === at) return; // a cycle of causes
    told[told.length] = at;
    add(at);
  }
}

// How JSON writes an error in a result. The default `{}` would hide the reasons of `Promise.allSettled`.
const { toJSON: errorJson } = {
  toJSON() {
    const causes = [];
    addCauses(causes, this);
    const told = { name: textOf(this.name), message: textOf(this.message), ...this, cause: undefined };
    if (causes.length > 0) told.causes = causes;
    return told;
  },
};

// The console text of a value: for a compat script its string, for others JSON if the string would say nothing.
function shown(value) {
  if (rawResults) return typeof value === "symbol" ? apply(symbolText, value, []) : StringOf(value);
  const text = textOf(value);
  if (typeof value !== "object" || value === null) return text;
  const vague = text === NO_TEXT || apply(slice, text, [0, 8]) === "[object ";
  if (!vague && !isArray(value)) return text;
  const json = readable(value);
  return json === undefined || (json === "{}" && vague && text !== NO_TEXT && text !== "[object Object]") ? text : json;
}
function readable(value) {
  const holders = [];
  function member(key, json) {
    const inner = typeof this[key] === "bigint" ? this[key] : json;
    while (holders.length > 0 && holders[holders.length - 1] !== this) holders.length--;
    if (typeof inner === "bigint") return inner + "n";
    if (typeof inner !== "object" || inner === null) return inner;
    for (let i = 0; i < holders.length; i++) if (holders[i] === inner) return "[Circular]";
    const plain = inner instanceof Table || inner instanceof Unique ? [...inner] : inner;
    holders[holders.length] = plain;
    return plain;
  }
  try {
    return stringify(value, member);
  } catch {
    return undefined;
  }
}

// Warnings about a result that JSON writes as `{}` or omits, although it has contents; one for each kind.
const LOOKED_AT = 10000;
const EMPTIED = [
  [NativePromise, "a promise, in JSON {}: put `await` before it, or `await Promise.all(...)` before several"],
  [Table, "a Map, in JSON {}: use Object.fromEntries(map), or [...map]"],
  [Unique, "a Set, in JSON {}: use [...set]"],
  [NativeIterator, "an iterator, in JSON {}: use [...iterator]"],
  [NativeRegExp, "a regular expression, in JSON {}: use String(pattern)"],
  [NativeBuffer, "an ArrayBuffer, in JSON {}: use [...new Uint8Array(buffer)], or new Uint8Array(buffer).toBase64()"],
];
function holdsOnlyFunctions(object) {
  const names = keys(object);
  for (let i = 0; i < names.length; i++) if (typeof object[names[i]] !== "function") return false;
  return names.length > 0;
}
function lost(value, text) {
  const said = create(null);
  if (text === undefined) {
    if (typeof value === "symbol") said["is a symbol, which JSON cannot write: use its description"] = true;
    if (typeof value === "function") said["is a function, which JSON cannot write: call it"] = true;
    return said;
  }
  if (apply(indexOf, text, ["{}"]) < 0 && apply(indexOf, text, ["null"]) < 0) return said;
  let left = LOOKED_AT;
  function look(key, member) {
    if (left-- === 0) throw said;
    if (typeof member === "number" && !isFinite(member)) said["holds " + member + ", in JSON null: check the calculation"] = true;
    if (member === null && this[key] instanceof NativeDate) said["holds a Date without a time, in JSON null: check the value that it was made from"] = true;
    if (typeof member !== "object" || member === null) return undefined;
    for (let i = 0; i < EMPTIED.length; i++) {
      if (!(member instanceof EMPTIED[i][0])) continue;
      said["holds " + EMPTIED[i][1]] = true;
      return undefined;
    }
    if (!holdsOnlyFunctions(member)) return member;
    said["holds an object of functions, in JSON {}: call one of them"] = true;
    return undefined;
  }
  try {
    stringify(value, look);
  } catch {
    // already found, or not possible: getters may throw the second time
  }
  return said;
}
function tellLost(value, text) {
  const said = keys(lost(value, text));
  for (let i = 0; i < said.length; i++) print("warn", ["The result " + said[i]]);
}

// The bytes of a text in the console's budget and in a message.
const NOT_ASCII = /[^\0-\x7f]/;
function utf8Length(text) {
  let bytes = text.length;
  if (apply(exec, NOT_ASCII, [text]) === null) return bytes;
  for (let i = 0; i < text.length; i++) {
    const unit = unitAt(text, i);
    if (unit > 0x7f) bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1;
  }
  return bytes;
}
// Whether a JSON text fits into one message, including what is written around it.
let frameLimit = 0;
const ENVELOPE = 65536;
function fits(json) {
  const room = frameLimit - ENVELOPE;
  return json.length <= room && (3 * json.length <= room || utf8Length(json) <= room);
}
