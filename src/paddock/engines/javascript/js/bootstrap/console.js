// The console. Every line is sent at once, so that a later crash loses none. No method throws: a value that cannot be read is
// replaced by a note. Levels correspond to node's streams: what node writes to standard error is `warn`, `error` or `debug`
// here.
let outputLeft = 0;
let linesLeft = 0;
let outputCut = false;
let margin = ""; // of a console.group
const MARGIN = 1000;

function print(level, values) {
  if (outputCut) return;
  const rest = rawResults ? 0 : formatted(values);
  const texts = rest > 0 ? [format.text] : [];
  for (let i = rest; i < values.length; i++) texts[texts.length] = printed(values[i]);
  write(level, apply(join, texts, [" "]));
}
// As node formats it, if neither its string nor JSON says anything; JSON fails for very deep values.
function printed(value) {
  if (!rawResults && (typeof value === "number" || typeof value === "bigint")) return asText(value);
  const text = shown(value);
  if (rawResults || typeof value !== "object" || value === null) return text;
  return text === "[object Object]" || (text === NO_TEXT && !isRevoked(value) && isArray(value)) ? inspect(value) : text;
}
function write(level, plain) {
  if (outputCut) return;
  const text = margin === "" ? plain : indented(plain);
  const bytes = text.length > outputLeft ? text.length : utf8Length(text);
  const form = bytes > outputLeft || linesLeft === 0 ? "" : stringify(text);
  if (form === "" || !fits(form)) {
    outputCut = true;
    send('["cut"]');
    return;
  }
  outputLeft -= bytes;
  linesLeft--;
  send('["console","' + level + '",' + form + "]");
}
// Adds the margin before each line, unless the text exceeds the budget and is cut anyway.
function indented(text) {
  let whole = margin;
  let from = 0;
  for (let at; (at = apply(indexOf, text, ["\n", from])) >= 0 && whole.length <= outputLeft; from = at + 1) {
    whole += apply(slice, text, [from, at + 1]) + margin;
  }
  return whole + apply(slice, text, [from]);
}

// Fills the `%` fields of the first value into `format.text`; returns how many values that uses, 0 without fields.
const format = { text: "" };
function formatted(values) {
  const text = values[0];
  if (values.length < 2 || typeof text !== "string" || !holds(text, "%")) return 0;
  let used = 1;
  let done = 0;
  let whole = "";
  for (let at = apply(indexOf, text, ["%"]); at >= 0 && at < text.length - 1; at = apply(indexOf, text, ["%", at])) {
    const letter = text[at + 1];
    if (letter !== "%" && (used >= values.length || apply(indexOf, FIELDS, [letter]) < 0)) {
      at++;
      continue;
    }
    whole += apply(slice, text, [done, at]) + (letter === "%" ? "%" : fieldOf(letter, values[used++]));
    done = at += 2;
  }
  format.text = whole + apply(slice, text, [done]);
  return used;
}
const FIELDS = "sdifjoOc";
function fieldOf(letter, value) {
  try {
    return textOfField(letter, value);
  } catch (error) {
    return holds("dif", letter) ? "NaN" : unreadable(error);
  }
}
function textOfField(letter, value) {
  switch (letter) {
    case "s": return asText(value);
    case "j": return asJson(value);
    case "o": return inspect(value, DEEP_LOOK);
    case "O": return inspect(value);
    case "c": return "";
  }
  if (typeof value === "symbol") return "NaN";
  if (typeof value === "bigint" && letter !== "f") return value + "n";
  if (letter === "d") return numberShown(NumberOf(value));
  return numberShown(letter === "i" ? toInteger(value) : toFloat(value));
}
const DEEP_LOOK = { __proto__: null, depth: 4, hidden: true };
const FLAT_LOOK = { __proto__: null, depth: 0 };
function asText(value) {
  if (typeof value === "number") return numberShown(value);
  if (typeof value === "bigint") return value + "n";
  if (typeof value !== "object" || value === null) return textOf(value);
  return isError(value) || hasOwnText(value) ? textOf(value) : inspect(value, FLAT_LOOK);
}
// Whether an object has a toString of the program, or is a list of numbers as typed arrays are.
function hasOwnText(value) {
  if (isWritten(value[toPrimitive])) return true;
  const method = value.toString;
  if (typeof method !== "function") return false;
  return getOwnPropertyDescriptor(value, "toString") !== undefined || isWritten(method) || apply(typedKind, value, []) !== undefined;
}
const isWritten = (method) => typeof method === "function" && !holds(apply(functionText, method, []), "[native code]");
const toPrimitive = Symbol.toPrimitive;
function asJson(value) {
  try {
    return StringOf(stringify(value));
  } catch (error) {
    if (isError(error) && holds(textOf(error.message), "circular structure")) return "[Circular]";
    throw error;
  }
}

const labelOf = (label) => (label === undefined ? "default" : textOf(label));
const counts = new Table();
const started = new Table();
function elapsed(label, what, values) {
  const since = apply(mapGet, started, [label]);
  if (since === undefined) return write("warn", "Warning: No such label '" + label + "' for console." + what + "()");
  const texts = [label + ": " + durationShown(now() - since)];
  for (let i = 0; i < values.length; i++) texts[i + 1] = printed(values[i]);
  write("log", apply(join, texts, [" "]));
}
function durationShown(ms) {
  const digits = (number, count) => apply(fixedText, number, [count]);
  if (ms < 1000) return digits(ms, 3) + "ms";
  if (ms < 60000) return digits(ms / 1000, 3) + "s";
  const two = (number) => apply(padStart, StringOf(number), [2, "0"]);
  const seconds = (ms % 60000) / 1000;
  if (ms < 3600000) return floor(ms / 60000) + ":" + apply(padStart, digits(seconds, 3), [6, "0"]) + " (m:ss.mmm)";
  return floor(ms / 3600000) + ":" + two(floor(ms / 60000) % 60) + ":" + two(floor(seconds)) + " (h:mm:ss)";
}
const fixedText = Number.prototype.toFixed;

function openGroup(values) {
  if (values.length > 0) print("log", values);
  if (margin.length < MARGIN) margin += "  ";
  else deeper++;
}
let deeper = 0; // groups beyond the maximum margin

const METHODS = {
  log(...values) { print("log", values); },
  warn(...values) { print("warn", values); },
  error(...values) { print("error", values); },
  info(...values) { print("info", values); },
  debug(...values) { print("debug", values); },
  dirxml(...values) { print("log", values); },
  dir(value, options) { write("log", inspect(value, lookOf(options))); },
  table(rows, columns) {
    let text = "";
    try {
      text = tableOf(rows, columns);
    } catch {
      // reading the rows runs the program's code: they are shown as far as they can be read
    }
    if (text === "") print("log", [rows]);
    else write("log", text);
  },
  trace(...values) {
    const site = { stack: "" };
    captureStackTrace(site, METHODS.trace);
    let frames = "";
    try {
      frames = framesOf({ stack: site.stack }, ""); // as the program reads it
    } catch {
      // the program's own Error.prepareStackTrace threw
    }
    const rest = formatted(values);
    const texts = rest > 0 ? [format.text] : [];
    for (let i = rest; i < values.length; i++) texts[texts.length] = printed(values[i]);
    const said = apply(join, texts, [" "]);
    const own = apply(indexOf, frames, ["\n    at start (paddock:glue:"]);
    write("error", "Trace" + (said === "" ? "" : ": " + said) + (own < 0 ? frames : apply(slice, frames, [0, own])));
  },
  assert(condition, ...values) {
    if (condition) return;
    values[0] = "Assertion failed" + (values.length === 0 ? "" : ": " + textOf(values[0]));
    print("warn", values);
  },
  count(label) {
    const name = labelOf(label);
    const count = (apply(mapGet, counts, [name]) ?? 0) + 1;
    apply(mapSet, counts, [name, count]);
    write("log", name + ": " + count);
  },
  countReset(label) {
    const name = labelOf(label);
    if (!apply(mapDelete, counts, [name])) write("warn", "Warning: Count for '" + name + "' does not exist");
  },
  time(label) {
    const name = labelOf(label);
    if (apply(mapGet, started, [name]) === undefined) apply(mapSet, started, [name, now()]);
    else write("warn", "Warning: Label '" + name + "' already exists for console.time()");
  },
  timeLog(label, ...values) { elapsed(labelOf(label), "timeLog", values); },
  timeEnd(label) {
    const name = labelOf(label);
    elapsed(name, "timeEnd", []);
    apply(mapDelete, started, [name]);
  },
  group(...values) { openGroup(values); },
  groupCollapsed(...values) { openGroup(values); },
  groupEnd() {
    if (deeper > 0) deeper--;
    else margin = apply(slice, margin, [2]);
  },
  clear() {},
};
const lookOf = (options) => {
  if (typeof options !== "object" || options === null) return undefined;
  try {
    const depth = options.depth === null ? Infinity : options.depth;
    return { __proto__: null, ...(depth === undefined ? {} : { depth: NumberOf(depth) }), hidden: options.showHidden === true };
  } catch {
    return undefined; // the program's own getters threw
  }
};

const console = create(null);
const seedConsole = create(null); // for compat scripts
for (const name of keys(METHODS)) console[name] = freeze(METHODS[name]);
for (const level of ["log", "warn", "error", "info", "debug"]) seedConsole[level] = console[level];
freeze(console);
freeze(seedConsole);

// A table of rows as node draws it; "" without rows. Ignores `columns` unless it is a list of names.
function tableOf(rows, columns) {
  if (typeof rows !== "object" || rows === null) return "";
  if (!isArray(columns)) columns = undefined;
  const kind = kindOf(rows);
  const indexes = [];
  const names = columns === undefined ? [] : textsOf(columns);
  const cells = new Table(); // of texts, by column
  const values = [];
  let hasValues = false;
  let indexName = "(index)";
  const add = (index, row) => {
    const at = indexes.length;
    indexes[at] = index;
    if ((typeof row !== "object" && typeof row !== "function") || row === null) {
      values[at] = cellOf(row);
      hasValues = true;
      return;
    }
    const members = columns === undefined ? keys(row) : names;
    for (let i = 0; i < members.length; i++) {
      const name = members[i];
      const owns = getOwnPropertyDescriptor(row, name) !== undefined;
      let column = apply(mapGet, cells, [name]);
      if (column === undefined) {
        apply(mapSet, cells, [name, (column = [])]);
        if (columns === undefined) names[names.length] = name;
      }
      if (owns) column[at] = memberCell(row, name);
    }
  };
  if (kind === "Map") {
    indexName = "(iteration index)";
    apply(mapSet, cells, ["Key", []]);
    names[0] = "Key";
    names.length = 1;
    apply(mapForEach, rows, [(value, key) => {
      const at = indexes.length;
      indexes[at] = StringOf(at);
      apply(mapGet, cells, ["Key"])[at] = cellOf(key);
      values[at] = cellOf(value);
      hasValues = true;
    }]);
  } else if (kind === "Set") {
    indexName = "(iteration index)";
    apply(setForEach, rows, [(value) => add(StringOf(indexes.length), value)]);
  } else {
    const members = keys(rows);
    for (let i = 0; i < members.length; i++) add(members[i], rows[members[i]]);
  }
  const heads = [indexName];
  const body = [indexes];
  for (let i = 0; i < names.length; i++) {
    heads[i + 1] = names[i];
    body[i + 1] = apply(mapGet, cells, [names[i]]) ?? [];
  }
  if (hasValues) {
    heads[heads.length] = "Values";
    body[body.length] = values;
  }
  return drawn(heads, body, indexes.length);
}
function textsOf(list) {
  const texts = [];
  for (let i = 0; i < list.length; i++) texts[i] = textOf(list[i]);
  return texts;
}
function memberCell(row, name) {
  try {
    return cellOf(row[name]);
  } catch (error) {
    return unreadable(error);
  }
}
function cellOf(value) {
  const isLarge = typeof value === "object" && value !== null && !isArray(value) && keys(value).length > 2;
  return inspect(value, { __proto__: null, depth: isLarge ? -1 : 0, listed: 3, width: Infinity });
}
function drawn(heads, body, count) {
  const widths = [];
  for (let i = 0; i < heads.length; i++) {
    widths[i] = widthOf(heads[i]) + 2;
    for (let row = 0; row < count; row++) widths[i] = max(widths[i], widthOf(body[i][row] ?? "") + 2);
  }
  const rule = (left, middle, right) => {
    let text = left;
    for (let i = 0; i < widths.length; i++) text += (i > 0 ? middle : "") + apply(repeat, "─", [widths[i]]);
    return text + right;
  };
  const line = (cell) => {
    let text = "│";
    for (let i = 0; i < widths.length; i++) text += " " + cell(i) + spacesOf(widths[i] - widthOf(cell(i)) - 1) + "│";
    return text;
  };
  const lines = [rule("┌", "┬", "┐"), line((i) => heads[i]), rule("├", "┼", "┤")];
  for (let row = 0; row < count; row++) lines[lines.length] = line((i) => body[i][row] ?? "");
  lines[lines.length] = rule("└", "┴", "┘");
  return apply(join, lines, ["\n"]);
}
// Width of a text on a terminal, in columns: two for a wide character, none for a combining one.
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/gu;
const JOINING = /[\u0300-\u036f\u200b-\u200d\ufe00-\ufe0f]/g;
function widthOf(text) {
  if (apply(exec, NOT_ASCII, [text]) === null) return text.length;
  return countOf(POINT, text) + countOf(WIDE, text) - countOf(JOINING, text);
}
const POINT = /[^]/gu;
function countOf(pattern, text) {
  let count = 0;
  for (pattern.lastIndex = 0; apply(exec, pattern, [text]) !== null; ) count++;
  return count;
}
