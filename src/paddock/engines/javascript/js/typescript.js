// Turns TypeScript into JavaScript with swc, for parse.js. Evaluated after wording.js and vendor/swc.js, and only if a
// program needs it, so that plain JavaScript does not pay for it.
//
//   loadTypeScript(bytes)  takes vendor/swc.wasm as an ArrayBuffer (or its base64) and compiles it
//   eraseTypes(text)       returns {code, map}; throws {message, offset, moduleWord} for a text that is not TypeScript
//
// The text is read as the body of an async function, because only there `return` and `await` are both legal. Types become
// blank in place, so that positions stay. Only syntax with a meaning at run time (enum, namespace, parameter property,
// <T>x) is compiled; then `map` has map[line] = [[column, text line, text column], ...], all from 0.
// (After a U+2028, which ends a line for V8 but not for swc, such a map is wrong.)
"use strict";

(() => {
  const HEAD = "async function _(){";
  const TAIL = "\n}";
  const NEWLINE = /\r\n|[\n\r]/g; // the line ends of swc, without U+2028

  const MODULE_WORD = "'import', and 'export' cannot be used outside of module code";
  const ODD = /[^\x20-\x7e\r\n]/g;

  let wasmModule = null;
  let swc = null;

  // The two encoders that swc's JavaScript needs, only for UTF-8.
  class TextEncoder {
    encode(string) {
      const bytes = new Uint8Array(string.length * 3);
      return bytes.slice(0, this.encodeInto(string, bytes).written);
    }

    encodeInto(string, bytes) {
      let at = 0;
      for (const character of string.toWellFormed()) {
        const point = character.codePointAt(0);
        if (point < 0x80) {
          bytes[at++] = point;
          continue;
        }
        const more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
        bytes[at++] = [0, 0xc0, 0xe0, 0xf0][more] | (point >> (6 * more));
        for (let left = more - 1; left >= 0; left--) bytes[at++] = 0x80 | ((point >> (6 * left)) & 0x3f);
      }
      return { read: string.length, written: at };
    }
  }

  class TextDecoder {
    decode(bytes = new Uint8Array()) {
      const parts = [];
      let units = [];
      for (let at = 0; at < bytes.length; ) {
        const first = bytes[at++];
        const more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        let point = more === 0 ? first : first & (0x3f >> more);
        for (let left = more; left > 0; left--) point = (point << 6) | (bytes[at++] & 0x3f);
        if (point < 0x10000) units.push(point);
        else units.push(0xd7c0 + (point >> 10), 0xdc00 | (point & 0x3ff));
        if (units.length > 8190) {
          parts.push(String.fromCharCode(...units));
          units = [];
        }
      }
      return parts.join("") + String.fromCharCode(...units);
    }
  }

  globalThis.loadTypeScript = (bytes) => {
    wasmModule = new WebAssembly.Module(typeof bytes === "string" ? Uint8Array.fromBase64(bytes) : bytes);
  };

  function run(text, mode) {
    swc ??= instantiateSwc(wasmModule, TextEncoder, TextDecoder);
    try {
      return swc.transformSync(text, { mode, module: true, sourceMap: mode === "transform" });
    } catch (error) {
      if (typeof error?.code === "string") throw error;
      // A trap (in practice, a stack overflow) leaves the instance in an unknown state.
      swc = null;
      throw { code: "Trap", message: "The program is nested too deeply to be parsed as TypeScript", startLine: 1, startColumn: 0 };
    }
  }

  function errorOf(text, mode) {
    try {
      run(text, mode);
      return null;
    } catch (error) {
      return error;
    }
  }

  // swc counts columns in terminal cells (a tab is 4, an emoji 2). A second call on a text with one cell per UTF-16 unit
  // returns the usual column.
  function offsetOf(error, text, mode) {
    const ends = [0, ...Array.from(text.matchAll(NEWLINE), (newline) => newline.index + newline[0].length), text.length];
    const start = ends[error.startLine - 1] ?? text.length;
    const line = text.slice(start, ends[error.startLine]);
    const odd = line.search(ODD);
    if (odd < 0) return start + error.startColumn;
    const again = errorOf(text.replace(ODD, (unit) => (/\s/.test(unit) ? " " : "x")), mode);
    if (again?.message === error.message && again.startLine === error.startLine) return start + again.startColumn;
    // The wide character is itself the error, such as a curly quote.
    return start + Math.max(line.indexOf(error.message.match(/character '(.)/u)?.[1]), odd);
  }

  // Errors are found without the head and tail, which an extra `}` could close. `return` is not legal there; its
  // replacements have the same length and need the same neighbours.
  function refusalOf(error, text, mode) {
    const wrapped = { error, text: HEAD + text + TAIL, shift: HEAD.length };
    const bare = text.replace(/\breturn\b(?=[ \t]*[^\s;}])/g, "throw ").replace(/\breturn\b/g, "$retrn");
    const alone = errorOf(bare, mode);
    // Rejected within the head but not without it: parse.js removes the import or export.
    const moduleWord = error.message === MODULE_WORD && alone?.message !== MODULE_WORD;
    const told = alone && !moduleWord ? { error: alone, text: bare, shift: 0 } : wrapped;
    const found = offsetOf(told.error, told.text, mode) - told.shift;
    const offset = Math.min(Math.max(found, 0), text.length);
    return { message: plainWords(told.error.message, text.slice(offset)), offset, moduleWord };
  }

  function plainWords(message, rest) {
    if (message === "Expression expected" || message === "Unexpected eof") {
      const token = rest.match(/^[\w$]+|^\S/u)?.[0];
      return token ? `Unexpected token '${token.slice(0, 40)}'` : "Unexpected end of input";
    }
    return message
      .replace(MODULE_WORD, "'import' and 'export' may only appear at the top level")
      .replace(/^Expected (.*), got '<eof>'$/, "Expected $1 before the end of the program")
      .replace(/^await isn't allowed in non-async function$/, globalThis.wording.AWAIT_ADVICE)
      .replace(/^'const' declarations must be initialized$/, globalThis.wording.CONST_ADVICE)
      .replace(/<eof>/g, "the end of the program")
      .replace(/(Unexpected token `.*?`)\. Expected an identifier, void.*/s, "$1 where a type is expected")
      .replace(" in strip-only mode", "");
  }

  globalThis.eraseTypes = (text) => {
    let mode = "strip-only";
    try {
      try {
        return { code: run(HEAD + text + TAIL, mode).code.slice(HEAD.length, -TAIL.length), map: null };
      } catch (error) {
        if (error.code !== "UnsupportedSyntax") throw error;
        mode = "transform";
        return unwrap(run(HEAD + text + TAIL, mode));
      }
    } catch (error) {
      if (typeof error.code !== "string") throw error;
      throw refusalOf(error, text, mode);
    }
  };

  function unwrap({ code, map }) {
    const open = code.indexOf("{") + 1;
    const decoded = decodeMap(JSON.parse(map).mappings);
    for (const segments of decoded) {
      for (const segment of segments) if (segment[1] === 0) segment[2] = Math.max(segment[2] - HEAD.length, 0);
    }
    // Remove the text before the body on its first line, also from the map.
    decoded[0] = decoded[0].filter((segment) => segment[0] >= open).map(([column, ...place]) => [column - open, ...place]);
    return { code: code.slice(open, code.lastIndexOf("}")), map: decoded };
  }

  // Source map v3: base64 VLQ; every field except the column is relative to the segment before it.
  function decodeMap(mappings) {
    const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let line = 0;
    let sourceColumn = 0;
    return mappings.split(";").map((group) => {
      let column = 0;
      const segments = [];
      for (const text of group ? group.split(",") : []) {
        const fields = [];
        let value = 0;
        let shift = 0;
        for (const character of text) {
          const digit = digits.indexOf(character);
          value |= (digit & 31) << shift;
          shift += 5;
          if (digit & 32) continue;
          fields.push(value & 1 ? -(value >> 1) : value >> 1);
          value = shift = 0;
        }
        column += fields[0];
        if (fields.length < 4) continue;
        line += fields[2];
        sourceColumn += fields[3];
        segments.push([column, line, sourceColumn]);
      }
      return segments;
    });
  }
})();
