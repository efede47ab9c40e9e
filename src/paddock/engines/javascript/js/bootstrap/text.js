// Strings and bytes: TextEncoder, TextDecoder, atob and btoa.
const UTF_8 = ["unicode-1-1-utf-8", "unicode11utf8", "unicode20utf8", "utf-8", "utf8", "x-unicode20utf8"];
const UTF_16LE = ["csunicode", "iso-10646-ucs-2", "ucs-2", "unicode", "unicodefeff", "utf-16", "utf-16le"];
const LATIN = [
  "ansi_x3.4-1968", "ascii", "cp1252", "cp819", "csisolatin1", "ibm819", "iso-8859-1", "iso-ir-100", "iso8859-1", "iso88591",
  "iso_8859-1", "iso_8859-1:1987", "l1", "latin1", "us-ascii", "windows-1252", "x-cp1252",
];
const LABELS = { __proto__: null, "utf-16be": "utf-16be", unicodefffe: "utf-16be" };
for (const label of UTF_8) LABELS[label] = "utf-8";
for (const label of UTF_16LE) LABELS[label] = "utf-16le";
for (const label of LATIN) LABELS[label] = "windows-1252";
const UPPER_LATIN = "€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ"; // 0x80 to 0x9f
const REPLACEMENT = 0xfffd;

// Writes a string as UTF-8 into bytes, as many whole characters as fit; `progress` gets the counts.
const progress = { read: 0, written: 0 };
function encodeInto(text, bytes, room) {
  let at = 0;
  let i = 0;
  for (; i < text.length; i++) {
    let point = unitAt(text, i);
    if (point < 0x80) {
      if (at === room) break;
      bytes[at++] = point;
      continue;
    }
    let units = 1;
    if (point >= 0xd800 && point <= 0xdfff) {
      const next = i + 1 < text.length ? unitAt(text, i + 1) : 0;
      if (point < 0xdc00 && next >= 0xdc00 && next <= 0xdfff) {
        point = 0x10000 + ((point - 0xd800) << 10) + next - 0xdc00;
        units = 2;
      } else point = REPLACEMENT;
    }
    const size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (at + size > room) break;
    if (size === 2) bytes[at++] = 0xc0 | (point >> 6);
    else {
      if (size === 3) bytes[at++] = 0xe0 | (point >> 12);
      else {
        bytes[at++] = 0xf0 | (point >> 18);
        bytes[at++] = 0x80 | ((point >> 12) & 0x3f);
      }
      bytes[at++] = 0x80 | ((point >> 6) & 0x3f);
    }
    bytes[at++] = 0x80 | (point & 0x3f);
    i += units - 1;
  }
  progress.read = i;
  progress.written = at;
}

class TextEncoder {
  #brand = true;
  get encoding() { return this.#brand && "utf-8"; }
  encode(text = "") {
    this.#brand;
    const whole = apply(toWellFormed, StringOf(text), []);
    const length = utf8Length(whole);
    const bytes = new Bytes(length);
    encodeInto(whole, bytes, length);
    return bytes;
  }
  encodeInto(text, bytes) {
    this.#brand;
    if (apply(typedKind, bytes, []) !== "Uint8Array") throw new NativeTypeError("encodeInto writes into a Uint8Array");
    encodeInto(StringOf(text), bytes, apply(typedLength, bytes, []));
    return { read: progress.read, written: progress.written };
  }
}
tagged(TextEncoder, "TextEncoder");

// Converts UTF-16 units to a string in parts.
const UNITS = 4096;
function addPiece(text, units, count) {
  units.length = count;
  return text + apply(fromCharCode, null, units);
}
// Up to UNITS bytes as characters of the same code.
function rawPiece(bytes, from, length) {
  const count = min(length - from, UNITS);
  const piece = new Bytes(apply(typedBuffer, bytes, []), apply(typedOffset, bytes, []) + from, count);
  return apply(fromCharCode, null, isolated(piece, count));
}
function rawText(bytes) {
  const length = apply(typedLength, bytes, []);
  let text = "";
  for (let from = 0; from < length; from += UNITS) text += rawPiece(bytes, from, length);
  return text;
}

class TextDecoder {
  #encoding;
  #fatal;
  #keepsMark;
  #state = null; // between calls with `stream`
  constructor(label = "utf-8", options = undefined) {
    const encoding = LABELS[apply(toLowerCase, apply(trim, StringOf(label), []), [])];
    if (encoding === undefined) throw new NativeRangeError("The encoding '" + cut(StringOf(label), 40) + "' is not supported: utf-8, utf-16le, utf-16be and latin1 are");
    this.#encoding = encoding;
    this.#fatal = options?.fatal ? true : false;
    this.#keepsMark = options?.ignoreBOM ? true : false;
  }
  get encoding() { return this.#encoding; }
  get fatal() { return this.#fatal; }
  get ignoreBOM() { return this.#keepsMark; }
  decode(input = undefined, options = undefined) {
    const bytes = input === undefined ? new Bytes(0) : bytesOf(input);
    if (bytes === null) throw new NativeTypeError("decode reads an ArrayBuffer, a typed array or a DataView");
    const state = this.#state ?? { __proto__: null, isBegun: false, needed: 0, point: 0, lower: 0x80, upper: 0xbf, half: -1, lead: -1 };
    this.#state = options?.stream ? state : null;
    const isLast = this.#state === null;
    let text;
    try {
      if (this.#encoding === "utf-8") text = decodeUtf8(bytes, state, isLast, this.#fatal);
      else if (this.#encoding === "windows-1252") text = decodeLatin(bytes);
      else text = decodeUtf16(bytes, state, isLast, this.#fatal, this.#encoding === "utf-16be");
    } catch (error) {
      this.#state = null;
      throw error;
    }
    if (state.isBegun || text === "") return text;
    state.isBegun = true;
    return this.#keepsMark || this.#encoding === "windows-1252" || unitAt(text, 0) !== 0xfeff ? text : apply(slice, text, [1]);
  }
}
tagged(TextDecoder, "TextDecoder");
const badBytes = () => new NativeTypeError("The encoded data was not valid for the encoding");

function decodeUtf8(bytes, state, isLast, isFatal) {
  const length = apply(typedLength, bytes, []);
  let text = "";
  let units = [];
  let count = 0;
  let { needed, point, lower, upper } = state;
  let looked = 0; // index from which another search for plain ASCII is worthwhile
  for (let i = 0; i < length; i++) {
    if (needed === 0 && i >= looked) {
      const piece = rawPiece(bytes, i, length);
      const odd = apply(exec, NOT_ASCII, [piece]);
      const plain = odd === null ? piece.length : odd.index;
      text = addPiece(text, units, count) + apply(slice, piece, [0, plain]);
      units = [];
      count = 0;
      looked = i + piece.length;
      i += plain;
      if (i >= length) break;
      if (odd === null) {
        i--;
        continue;
      }
    }
    const byte = bytes[i];
    if (needed === 0) {
      if (byte < 0x80) units[count++] = byte;
      else if (byte >= 0xc2 && byte <= 0xf4) {
        needed = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
        point = byte & (needed === 1 ? 0x1f : needed === 2 ? 0xf : 7);
        lower = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80;
        upper = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf;
      } else if (isFatal) throw badBytes();
      else units[count++] = REPLACEMENT;
    } else if (byte < lower || byte > upper) {
      if (isFatal) throw badBytes();
      units[count++] = REPLACEMENT;
      needed = 0;
      i--; // read this byte again, as a first byte
    } else {
      lower = 0x80;
      upper = 0xbf;
      point = (point << 6) | (byte & 0x3f);
      if (--needed > 0) continue;
      if (point < 0x10000) units[count++] = point;
      else {
        units[count++] = 0xd7c0 + (point >> 10);
        units[count++] = 0xdc00 | (point & 0x3ff);
      }
    }
    if (count >= UNITS) {
      text = addPiece(text, units, count);
      units = [];
      count = 0;
    }
  }
  if (isLast && needed > 0) {
    if (isFatal) throw badBytes();
    units[count++] = REPLACEMENT;
    needed = 0;
  }
  state.needed = needed;
  state.point = point;
  state.lower = lower;
  state.upper = upper;
  return addPiece(text, units, count);
}

function decodeUtf16(bytes, state, isLast, isFatal, isBig) {
  const length = apply(typedLength, bytes, []);
  let text = "";
  let units = [];
  let count = 0;
  const bad = () => {
    if (isFatal) throw badBytes();
    units[count++] = REPLACEMENT;
  };
  for (let i = 0; i < length; i++) {
    if (state.half < 0) {
      state.half = bytes[i];
      continue;
    }
    const unit = isBig ? (state.half << 8) | bytes[i] : (bytes[i] << 8) | state.half;
    state.half = -1;
    if (state.lead >= 0) {
      const lead = state.lead;
      state.lead = -1;
      if (isLow(unit)) {
        units[count++] = lead;
        units[count++] = unit;
        continue;
      }
      bad();
    }
    if (isHigh(unit)) state.lead = unit;
    else if (isLow(unit)) bad();
    else units[count++] = unit;
    if (count >= UNITS) {
      text = addPiece(text, units, count);
      units = [];
      count = 0;
    }
  }
  if (isLast && (state.half >= 0 || state.lead >= 0)) bad();
  return addPiece(text, units, count);
}

function decodeLatin(bytes) {
  const text = rawText(bytes);
  let whole = "";
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = unitAt(text, i);
    if (unit < 0x80 || unit > 0x9f) continue;
    whole += apply(slice, text, [from, i]) + UPPER_LATIN[unit - 0x80];
    from = i + 1;
  }
  return whole + apply(slice, text, [from]);
}

const NOT_LATIN = /[^\0-\xff]/;
function btoa(text) {
  if (arguments.length === 0) throw new NativeTypeError("btoa needs a text");
  const whole = StringOf(text);
  if (apply(exec, NOT_LATIN, [whole]) !== null) throw domError("Invalid character: btoa takes characters up to \\xff; encode others with TextEncoder", "InvalidCharacterError");
  const bytes = new Bytes(whole.length);
  for (let i = 0; i < whole.length; i++) bytes[i] = unitAt(whole, i);
  return apply(toBase64, bytes, []);
}
function atob(text) {
  if (arguments.length === 0) throw new NativeTypeError("atob needs a text");
  let bytes;
  try {
    bytes = apply(fromBase64, Bytes, [StringOf(text)]);
  } catch {
    throw domError("The string to be decoded is not correctly encoded", "InvalidCharacterError");
  }
  return rawText(bytes);
}
