// Formats values as node does (util.inspect) for console.dir, console.table, `%o` and `%O`. Reading a value may run the
// program's code in getters and proxies; an exception is shown instead of the value.
const [BREAK, COMPACT, LISTED, TEXT_SHOWN] = [80, 3, 100, 10000];
const IDENTIFIER = /^[a-zA-Z_][a-zA-Z_0-9]*$/;
const CONTROLS = /[\x00-\x1f\x7f-\x9f\\]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
const ESCAPES = { __proto__: null, "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", "\\": "\\\\" };

function quote(text) {
  const mark = !holds(text, "'") ? "'" : !holds(text, '"') ? '"' : !holds(text, "`") && !holds(text, "${") ? "`" : "'";
  if (apply(exec, CONTROLS, [text]) === null && (mark !== "'" || !holds(text, "'"))) return mark + text + mark;
  let quoted = "";
  for (let i = 0; i < text.length; i++) {
    const letter = text[i];
    const unit = unitAt(text, i);
    const odd = unit < 32 || (unit > 126 && unit < 160);
    const half = isHigh(unit) ? !isLow(unitAt(text, i + 1)) : isLow(unit) && !(i > 0 && isHigh(unitAt(text, i - 1)));
    if (letter === mark) quoted += "\\" + letter;
    else if (ESCAPES[letter] !== undefined) quoted += ESCAPES[letter];
    else if (half) quoted += "\\u" + apply(numberText, unit, [16]);
    else quoted += odd ? "\\x" + apply(upper, apply(padStart, apply(numberText, unit, [16]), [2, "0"]), []) : letter;
  }
  return mark + quoted + mark;
}
const numberText = Number.prototype.toString;
const upper = String.prototype.toUpperCase;
const isLow = (unit) => unit >= 0xdc00 && unit <= 0xdfff;
const numberShown = (number) => (number === 0 && 1 / number < 0 ? "-0" : StringOf(number));

// `options`: depth (Infinity for all), hidden, listed (members of a list that are shown), width.
function inspect(value, options) {
  const { depth = 2, hidden = false, listed = LISTED, width = BREAK } = { __proto__: null, ...options };
  return inspected({ depth, hidden, listed, width, seen: [], indent: 0, circles: null, current: 0, broken: false }, value, 0, true);
}

function inspected(context, value, level, isMember) {
  switch (typeof value) {
    case "string": return stringShown(context, value, isMember);
    case "number": return numberShown(value);
    case "bigint": return value + "n";
    case "symbol": return apply(symbolText, value, []);
    case "undefined": case "boolean": return StringOf(value);
  }
  if (value === null) return "null";
  for (let i = 0; i < context.seen.length; i++) if (context.seen[i] === value) return circleShown(context, value);
  if (level > MOST_LEVELS) context.broken = true;
  if (context.broken) return TOO_DEEP; // also for what follows: the number of branches could double on each level
  const { seen, indent } = context;
  const around = seen.length;
  try {
    return isRevoked(value) ? "<Revoked Proxy>" : objectShown(context, value, level);
  } catch (error) {
    seen.length = around;
    context.indent = indent;
    context.broken ||= isOverflow(error);
    return context.broken ? TOO_DEEP : unreadable(error);
  }
}
const MOST_LEVELS = 200;
const TOO_DEEP = "[Object: Inspection interrupted prematurely. Maximum call stack size exceeded.]";
const isOverflow = (error) => messageOf(error) === "Maximum call stack size exceeded";
// The text for a value whose reading threw an exception of the program's code.
const unreadable = (error) => "<Inspection threw (" + cut(textOf(messageOf(error)), NAME) + ")>";
function messageOf(error) {
  try {
    return isError(error) ? error.message : error;
  } catch {
    return NO_TEXT;
  }
}
function isRevoked(value) {
  try {
    isArray(value); // calls no trap of a proxy
    return false;
  } catch {
    return true;
  }
}

function stringShown(context, text, isMember) {
  let rest = "";
  if (text.length > TEXT_SHOWN) {
    const more = text.length - TEXT_SHOWN;
    text = apply(slice, text, [0, TEXT_SHOWN]);
    rest = "... " + more + " more character" + (more > 1 ? "s" : "");
  }
  if (!isMember || text.length <= 16 || text.length <= context.width - context.indent - 4) return quote(text) + rest;
  const lines = [];
  for (let at = 0, end; at < text.length; at = end) {
    end = apply(indexOf, text, ["\n", at]) + 1;
    if (end === 0) end = text.length;
    lines[lines.length] = quote(apply(slice, text, [at, end]));
  }
  return apply(join, lines, [" +\n" + spacesOf(context.indent + 2)]) + rest;
}
const spacesOf = (count) => apply(repeat, " ", [count]);

function circleShown(context, value) {
  context.circles ??= new Table();
  let number = apply(mapGet, context.circles, [value]);
  if (number === undefined) apply(mapSet, context.circles, [value, (number = ++context.circleCount || (context.circleCount = 1))]);
  return "[Circular *" + number + "]";
}

// The class name of an object; "" without one.
function classOf(value) {
  for (let at = value; at !== null; at = getPrototypeOf(at)) {
    if (at === FunctionPrototype) return "Function"; // its constructor is an accessor (world.js)
    const found = getOwnPropertyDescriptor(at, "constructor");
    if (found === undefined || typeof found.value !== "function") continue;
    const named = getOwnPropertyDescriptor(found.value, "name");
    const name = named === undefined ? "" : named.value;
    if (typeof name === "string" && name !== "" && apply(hasInstance, found.value, [value])) return name;
  }
  return "";
}

// The text before the braces, such as `Foo(2) [tag] `.
function prefixOf(name, tag, kind, size) {
  const shownName = name === "" ? (tag !== "" && kind !== tag ? "[" + kind + size + ": null prototype] [" + tag + "]" : "[" + kind + size + ": null prototype]") : name + size;
  return (name !== "" && tag !== "" && tag !== name ? shownName + " [" + tag + "]" : shownName) + " ";
}

function shownKeys(context, value, isList) {
  const names = context.hidden ? getOwnPropertyNames(value) : keys(value);
  const found = [];
  for (let i = 0; i < names.length; i++) if (!isList || !isIndex(names[i])) found[found.length] = names[i];
  const symbols = getOwnPropertySymbols(value);
  for (let i = 0; i < symbols.length; i++) if (context.hidden || apply(isEnumerable, value, [symbols[i]])) found[found.length] = symbols[i];
  return found;
}
const INDEX = /^(?:0|[1-9][0-9]{0,9})$/;
const isIndex = (name) => apply(exec, INDEX, [name]) !== null;

function objectShown(context, value, level) {
  const kind = typeof value === "function" ? "Function" : kindOf(value);
  const name = classOf(value);
  let tag = value[toStringTag];
  if (typeof tag !== "string" || tag === name) tag = "";
  const isTyped = Constructors[kind] !== undefined && apply(typedKind, value, []) === kind;
  const isList = kind === "Array" || isTyped || kind === "String";
  const names = shownKeys(context, value, isList);
  let base = "";
  let open = "{";
  let close = "}";
  let list = null; // adds contents that are not properties
  let isGrouped = false;
  const size = (count) => "(" + count + ")";
  switch (kind) {
    case "Array":
      open = (name !== "Array" || tag !== "" ? prefixOf(name, tag, "Array", size(value.length)) : "") + "[";
      close = "]";
      isGrouped = true;
      if (value.length === 0 && names.length === 0) return open + "]";
      list = (output) => addMembers(context, output, value, value.length, level);
      break;
    case "Map": case "Set": {
      const count = apply(valueOfKind[kind], value, []);
      open = prefixOf(name, tag, kind, size(count)) + "{";
      if (count === 0 && names.length === 0) return open + "}";
      list = (output) => addEntries(context, output, value, kind, level);
      break;
    }
    case "": case "Object":
      if (name !== "Object" || tag !== "") open = prefixOf(name, tag, "Object", "") + "{";
      else if (apply(objectText, value, []) === "[object Arguments]") open = "[Arguments] {";
      if (names.length === 0) return open + "}";
      break;
    case "Function":
      base = functionShown(value, name, tag);
      if (names.length === 0) return base;
      break;
    case "RegExp":
      base = apply(regExpText, value, []);
      if (names.length === 0) return base;
      break;
    case "Date": {
      const time = apply(valueOfKind.Date, value, []);
      base = (name === "Date" && tag === "" ? "" : prefixOf(name, tag, "Date", "")) + (time !== time ? "Invalid Date" : apply(dateIso, value, []));
      if (names.length === 0) return base;
      break;
    }
    case "Error":
      base = "[" + textOf(value) + "]";
      if (names.length === 0 && getOwnPropertyDescriptor(value, "cause") === undefined) return base;
      if (getOwnPropertyDescriptor(value, "cause")?.enumerable === false) names[names.length] = "cause";
      break;
    case "ArrayBuffer": case "DataView":
      open = prefixOf(name, tag, kind, "") + "{";
      list = (output) => addBytes(context, output, value, kind, level);
      break;
    case "Number": case "String": case "Boolean": case "BigInt": case "Symbol":
      base = "[" + kind + ": " + inspected(context, apply(valueOfKind[kind], value, []), level, false) + "]";
      if (names.length === 0) return base;
      break;
    case "WeakMap": case "WeakSet":
      open = prefixOf(name, tag, kind, "") + "{";
      list = (output) => { output[output.length] = "<items unknown>"; };
      break;
    case "Promise": case "WeakRef":
      open = prefixOf(name, tag, kind, "") + "{";
      if (names.length === 0) return open + "}";
      break;
    default: // a typed array
      open = prefixOf(name, tag, kind, size(apply(typedLength, value, []))) + "[";
      close = "]";
      isGrouped = true;
      if (apply(typedLength, value, []) === 0 && names.length === 0) return open + "]";
      list = (output) => addMembers(context, output, value, apply(typedLength, value, []), level);
  }
  if (level > context.depth) return "[" + (kind === "Array" && name === "Array" ? "Array" : name === "" ? "Object: null prototype" : name + (tag === "" ? "" : " [" + tag + "]")) + "]";
  const output = [];
  context.seen[context.seen.length] = value;
  context.current = level;
  if (list !== null) list(output);
  for (let i = 0; i < names.length; i++) output[output.length] = propertyShown(context, value, names[i], level, isGrouped);
  context.seen.length--;
  const number = context.circles === null ? undefined : apply(mapGet, context.circles, [value]);
  if (number !== undefined) {
    const reference = "<ref *" + number + ">";
    if (base !== "") base = reference + " " + base;
    else open = reference + " " + open;
  }
  return joined(context, output, base, open, close, isGrouped, level, value);
}
const toStringTag = Symbol.toStringTag;

function functionShown(value, name, tag) {
  const source = apply(functionText, value, []);
  const named = getOwnPropertyDescriptor(value, "name");
  const own = named !== undefined && typeof named.value === "string" ? named.value : "";
  if (apply(slice, source, [0, 5]) === "class" && apply(slice, source, [-1]) === "}") {
    const above = getPrototypeOf(value);
    const aboveName = typeof above === "function" ? getOwnPropertyDescriptor(above, "name")?.value : "";
    return "[class " + (own === "" ? "(anonymous)" : own) + (typeof aboveName === "string" && aboveName !== "" ? " extends " + aboveName : "") + "]";
  }
  const kind = name === "" ? "Function (null prototype)" : name;
  return "[" + kind + (own === "" ? " (anonymous)" : ": " + own) + "]" + (tag === "" || tag === kind ? "" : " [" + tag + "]");
}

function addMembers(context, output, value, length, level) {
  const most = min(context.listed, length);
  let shownCount = 0;
  let index = 0;
  for (; index < length && shownCount < most; shownCount++) {
    if (getOwnPropertyDescriptor(value, index) !== undefined) {
      output[output.length] = propertyShown(context, value, index++, level, true, true);
      continue;
    }
    const from = index;
    while (index < length && getOwnPropertyDescriptor(value, index) === undefined) index++;
    output[output.length] = "<" + (index - from) + " empty item" + (index - from > 1 ? "s" : "") + ">";
  }
  if (index < length) output[output.length] = moreItems(length - index);
}
const moreItems = (count) => "... " + count + " more item" + (count > 1 ? "s" : "");

function addEntries(context, output, value, kind, level) {
  let count = 0;
  context.indent += 2;
  const one = (member) => inspected(context, member, level + 1, true);
  const add = (member, key) => {
    if (count++ < context.listed) output[output.length] = kind === "Map" ? one(key) + " => " + one(member) : one(member);
  };
  apply(kind === "Map" ? mapForEach : setForEach, value, [add]);
  if (count > context.listed) output[output.length] = moreItems(count - context.listed);
  context.indent -= 2;
}

function addBytes(context, output, value, kind, level) {
  if (kind === "ArrayBuffer") {
    const bytes = new Bytes(value);
    const length = apply(typedLength, bytes, []);
    let text = "";
    for (let i = 0; i < min(length, 50); i++) text += (i > 0 ? " " : "") + apply(padStart, apply(numberText, bytes[i], [16]), [2, "0"]);
    if (length > 50) text += " ... " + (length - 50) + " more byte" + (length > 51 ? "s" : "");
    output[0] = "[Uint8Contents]: <" + text + ">";
    output[1] = "byteLength: " + length;
    return;
  }
  output[0] = "byteLength: " + apply(viewBytes, value, []);
  output[1] = "byteOffset: " + apply(viewOffset, value, []);
  output[2] = "buffer: " + inspected(context, apply(viewBuffer, value, []), level + 1, true);
}

function propertyShown(context, holder, key, level, isListed, isMember) {
  const found = getOwnPropertyDescriptor(holder, key) ?? { __proto__: null, value: holder[key], enumerable: true };
  let text;
  if (found.get !== undefined) text = found.set !== undefined ? "[Getter/Setter]" : "[Getter]";
  else if (found.set !== undefined) text = "[Setter]";
  else {
    context.indent += 2;
    text = inspected(context, found.value, level + 1, true);
    context.indent -= 2;
  }
  if (isMember) return text;
  let name = typeof key === "symbol" ? "[" + apply(symbolText, key, []) + "]" : apply(exec, IDENTIFIER, [key]) !== null ? key : quote(key);
  if (key === "__proto__") name = "['__proto__']";
  else if (!found.enumerable && typeof key === "string") name = "[" + key + "]";
  return name + ": " + text;
}

// One line if it fits and has at most three levels, else a line for each entry; long lists in columns.
function joined(context, output, base, open, close, isGrouped, level, value) {
  const entries = output.length;
  if (isGrouped && entries > 6) output = grouped(context, output, value);
  const before = base === "" ? "" : base + " ";
  if (context.current - level < COMPACT && entries === output.length) {
    let length = output.length + (output.length + context.indent + open.length + base.length + 10);
    for (let i = 0; i < output.length; i++) length += output[i].length;
    const line = apply(join, output, [", "]);
    if (length <= context.width && !holds(line, "\n") && !holds(base, "\n")) return before + open + " " + line + " " + close;
  }
  const indentation = "\n" + spacesOf(context.indent);
  return before + open + indentation + "  " + apply(join, output, ["," + indentation + "  "]) + indentation + close;
}

function grouped(context, output, value) {
  const isCut = output.length > context.listed;
  const count = isCut ? output.length - 1 : output.length;
  let total = 0;
  let longest = 0;
  for (let i = 0; i < count; i++) {
    total += output[i].length + 2;
    longest = max(longest, output[i].length);
  }
  const widest = longest + 2;
  if (!(widest * 3 + context.indent < context.width && (total / widest > 5 || longest <= 6))) return output;
  const biased = max(widest - 3 - sqrt(widest - total / output.length), 1);
  const columns = min(round(sqrt(2.5 * biased * count) / biased), floor((context.width - context.indent) / widest), COMPACT * 4, 15);
  if (columns <= 1) return output;
  const widths = [];
  for (let i = 0; i < columns; i++) {
    let width = 0;
    for (let j = i; j < count; j += columns) width = max(width, output[j].length);
    widths[i] = width + 2;
  }
  let pad = padStart;
  for (let i = 0; i < output.length; i++) {
    if (typeof value[i] !== "number" && typeof value[i] !== "bigint") {
      pad = padEnd;
      break;
    }
  }
  const lines = [];
  for (let i = 0; i < count; i += columns) {
    const end = min(i + columns, count);
    let line = "";
    let j = i;
    for (; j < end - 1; j++) line += apply(pad, output[j] + ", ", [widths[j - i]]);
    lines[lines.length] = line + (pad === padStart ? apply(padStart, output[j], [widths[j - i] - 2]) : output[j]);
  }
  if (isCut) lines[lines.length] = output[count];
  return lines;
}
