// Numbers that a double cannot hold keep their digits from the host and back. Integers arrive as BigInt. For others, a program
// gets the nearest double. The digits are remembered by the object and key in which they arrived, and by the double, unless two
// numbers have the same double. A double with few digits may be the program's own, so it is remembered only by object and key.
const LITERAL = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
const WHOLE = /^-?\d+$/;
const [MAX_DIGITS, OWN_DIGITS] = [4000, 16];
const literals = new Table(); // by double; null if several numbers have it
const places = new Places(); // by object or array of a message: literals by key
const NONE = new Table();
let remembers = false;

// The digits of a number and their exponent, which are the same for all spellings of one number.
function normal(literal) {
  const found = apply(exec, LITERAL, [literal]);
  if (found === null) return literal;
  const fraction = found[2] ?? "";
  const digits = found[1] + fraction;
  let first = 0;
  let end = digits.length;
  while (first < end && unitAt(digits, first) === 48) first++;
  while (end > first && unitAt(digits, end - 1) === 48) end--;
  if (first === end) return "0";
  return apply(slice, digits, [first, end]) + "e" + (NumberOf(found[3] ?? 0) - fraction.length + digits.length - end);
}

function remember(double, literal, holder, key) {
  const own = normal(StringOf(double));
  if (own === normal(literal)) return;
  know(double, literal, apply(indexOf, own, ["e"]) >= OWN_DIGITS);
  let keyed = apply(placeGet, places, [holder]);
  if (keyed === undefined) apply(placeSet, places, [holder, (keyed = new Table())]);
  apply(mapSet, keyed, [key, literal]);
}

// Parses a text that may contain such numbers. `revive` is the program's own reviver, if any.
function parseExactly(text, revive) {
  return parse(text, function (key, value, context) {
    let read = value;
    if (typeof value === "number") read = readNumber(this, key, value, context.source);
    else if (typeof value === "object" && value !== null && apply(placeGet, places, [value]) === undefined) {
      apply(placeSet, places, [value, NONE]);
    }
    return revive === undefined ? read : apply(revive, this, [key, read, context]);
  });
}
function readNumber(holder, key, double, source) {
  if (source === undefined || (source === StringOf(double) && isSafeInteger(double))) return double; // without a source, a reviver made it
  if (apply(exec, WHOLE, [source]) !== null) return isSafeInteger(double) ? double : BigIntOf(source);
  remember(double, source, holder, key);
  return double;
}

// Replaces JSON.parse. The host reports strings that contain quotes and may contain such numbers, because the search takes a
// quarter of the time of V8's parser. A text without quotes is always searched.
let watchesTexts = false;
const ROW = new RegExp("[0-9.]".repeat(16)); // written out, V8 skips sixteen characters at a time
const FAR = /\d[eE][+-]?\d{3}/;
const LONG = /-?(?:[\d.]{16,}(?:[eE][+-]?\d+)?|\d[\d.]*[eE][+-]?\d{3,})/g;
const { parse: exactParse } = {
  parse(text, reviver) {
    const json = `${text}`;
    if (!watchesTexts && (json[0] === "{" || holds(json, '"'))) return parse(json, reviver);
    return holdsLong(json) ? parseExactly(json, typeof reviver === "function" ? reviver : undefined) : parse(json, reviver);
  },
};
function holdsLong(json) {
  if (apply(exec, ROW, [json]) === null && apply(exec, FAR, [json]) === null) return false;
  LONG.lastIndex = 0;
  for (let found; (found = apply(exec, LONG, [json])) !== null; ) {
    const digits = found[0];
    const double = NumberOf(digits);
    if (double !== double || unitAt(json, found.index - 1) === 34) continue; // a string
    const whole = apply(exec, WHOLE, [digits]) !== null;
    if (whole ? !isSafeInteger(double) : normal(StringOf(double)) !== normal(digits)) return true;
  }
  return false;
}

// Whether such numbers keep their digits in the program. For compat scripts, JSON is V8's own.
function keepDigits(keeps) {
  if (keeps) return provide("toJSON", bigJson, BigIntOf.prototype);
  provide("parse", parse, JsonObject);
  provide("stringify", stringify, JsonObject);
}

// What is written in a program is a number, too, of either sign. A whole one beyond 2**53 is nobody else's.
function rememberWritten(written) {
  for (let i = 0; i < written.length; i++) {
    const double = NumberOf(written[i]);
    const own = normal(StringOf(double));
    if (own === normal(written[i])) continue;
    const long = apply(indexOf, own, ["e"]) >= OWN_DIGITS || (isInteger(double) && !isSafeInteger(double));
    know(double, written[i], long);
    know(-double, "-" + written[i], long);
  }
}

function know(double, literal, long) {
  const known = apply(mapGet, literals, [double]);
  apply(mapSet, literals, [double, long && (known === undefined || known === literal) ? literal : null]);
  remembers = true;
}

// The digits of a number that JSON writes as `key` of `holder`; undefined for the double's own, null if they are ambiguous.
function literalOf(holder, key, double) {
  const keyed = apply(placeGet, places, [holder]);
  const literal = keyed === undefined ? undefined : apply(mapGet, keyed, [key]);
  if (literal !== undefined && NumberOf(literal) === double) return literal;
  const known = apply(mapGet, literals, [double]);
  return known === null && keyed !== undefined ? undefined : known; // it arrived with the double's own digits
}

// Whether a double may be a rounded larger integer.
function isTooLarge(double) {
  if (isSafeInteger(double) || !isInteger(double)) return false;
  return apply(indexOf, normal(StringOf(double)), ["e"]) >= OWN_DIGITS;
}
const TOO_LARGE = "a number holds integers up to 2**53; use a BigInt or a string";

// How JSON writes a BigInt. One with more digits than JSON readers accept stays a BigInt, which JSON rejects.
const { toJSON: bigJson } = {
  toJSON() {
    const digits = apply(bigText, this, []);
    return digits.length > MAX_DIGITS ? this : rawJSON(digits);
  },
};

// A replacer for `stringify` that calls `visit(holder, key, member, here)` for each member; `here` has its path.
const NAMED = /^[A-Za-z_$][\w$]*$/;
function walking(root, visit) {
  const holders = [];
  const steps = [];
  const here = {
    holders,
    steps,
    path() {
      let text = root;
      for (let i = 1; i < steps.length; i++) {
        const step = isArray(holders[i - 1]) ? steps[i] : stringify(steps[i]);
        text += apply(exec, NAMED, [steps[i]]) === null ? "[" + step + "]" : "." + steps[i];
      }
      return cut(text, NAME);
    },
  };
  return function (key, member) {
    while (holders.length > 0 && holders[holders.length - 1] !== this) holders.length--;
    steps.length = holders.length;
    steps[holders.length] = key;
    const kept = visit(this, key, member, here);
    if (typeof kept === "object" && kept !== null) holders[holders.length] = kept;
    return kept;
  };
}

// The JSON of a value, with the original digits of numbers that were only passed on.
function exactly(value, root, space) {
  if (remembers) return stringify(value, walking(root, exact), space);
  return space === undefined ? stringify(value) : stringify(value, null, space); // V8 is faster without it, and nests deeper
}
function exact(holder, key, member, here) {
  if (typeof member !== "number") return member;
  const literal = literalOf(holder, key, member);
  if (literal === undefined) return member;
  if (literal !== null) return rawJSON(literal);
  tellInexact(here, member, TWIN);
  return member;
}
const TWIN = "a longer number has the same double; pass on the object that it came in, a BigInt or a string";
// Replaces JSON.stringify.
const { stringify: exactStringify } = {
  stringify(value, replacer, space) {
    if (!remembers) return stringify(value, replacer, space);
    const own = replacer === undefined || replacer === null ? walking("value", exact) : replacer;
    return stringify(value, own, space);
  },
};
const INEXACT_SHOWN = 8;
let inexact = 0;
function tellInexact(here, number, why) {
  if (inexact++ < INEXACT_SHOWN) print("warn", [here.path() + " is sent as " + number + " and may lack digits: " + why]);
}
