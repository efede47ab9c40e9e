// What a program says: its errors and its console lines.
function textOf(value) {
  try {
    return typeof value === "symbol" ? apply(symbolText, value, []) : StringOf(value);
  } catch {
    return "[value without a text form]";
  }
}
const symbolText = Symbol.prototype.toString;
const [NAME, TEXT] = [256, 65536];
const cut = (text, length) => (text.length > length ? apply(slice, text, [0, length]) + "..." : text);

// What is reported of a thrown value. Reading it may run guest code (getters, proxies): it can only fool its author.
function describe(thrown) {
  const report = { name: "Error", message: "", thrown: cut(textOf(thrown), TEXT), stack: "", error: false };
  try {
    if (thrown instanceof NativeError) {
      report.error = true;
      report.name = cut(textOf(thrown.name), NAME);
      report.message = cut(textOf(thrown.message), TEXT);
      const stack = thrown.stack;
      if (typeof stack === "string") report.stack = apply(slice, stack, [0, 8192]);
    } else {
      report.name = "Thrown";
      report.message = report.thrown;
    }
  } catch {
    report.message = report.thrown;
  }
  return report;
}

// The console: every line goes out at once, so that none is lost to what comes after it.
let outputLeft = 0;
let linesLeft = 0;
let outputCut = false;
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
// Whether a JSON text goes into one message, with room for what is written around it.
let frameLimit = 0;
const ENVELOPE = 65536;
function fits(json) {
  const room = frameLimit - ENVELOPE;
  return json.length <= room && (3 * json.length <= room || utf8Length(json) <= room);
}
function print(level, values) {
  if (outputCut) return;
  const texts = [];
  for (let i = 0; i < values.length; i++) {
    texts[i] = typeof values[i] === "symbol" ? apply(symbolText, values[i], []) : StringOf(values[i]);
  }
  const text = apply(join, texts, [" "]);
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
const console = create(null);
for (const level of ["log", "warn", "error", "info", "debug"]) {
  console[level] = { [level](...values) { print(level, values); } }[level];
  freeze(console[level]);
}
freeze(console);
