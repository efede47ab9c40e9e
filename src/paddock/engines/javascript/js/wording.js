// Words syntax errors for the author of the program, for parse.js. Evaluated after module_words.js.
"use strict";

(() => {
  const { Refusal } = globalThis.moduleWords;
  const AWAIT_ADVICE = "await is only valid in async functions; write `async` before the function that it stands in";
  const CONST_ADVICE = "A 'const' must be given a value where it is declared";
  const DECORATED_ADVICE = "A decorator must be before a class, a method, a field or an accessor";
  const ESCAPED = /&(?:lt|gt|amp|quot|apos|#0?39);/;
  const UNSEEN = /^Unexpected character '([\p{C}\p{Z}])'$/u;
  // A closed or an empty tag where an expression begins. Only rejected texts are searched for it.
  const JSX = /(?:[=(,:?&|>]|\breturn)\s*(?=<(?:>|([A-Za-z][\w.:-]*)(?:\s[^<>]{0,500})?(?:\/>|>[^]{0,2000}?<\/\1\s*>)))/;

  // A line that only Python can have: no line of JavaScript begins with such a word and ends with a colon.
  const PYTHON =
    /^\s*(?:(?:(?:async +)?def|class|for|while|if|elif|with|try|else|except|finally)\b.*:\s*(?:#.*)?$|from +[\w.]+ +import\b|import +[\w.]+(?: +as +\w+)?\s*$)/;
  const PYTHON_ADVICE = "This is Python, and a program is JavaScript or TypeScript; run Python with run_program or `paddock exec`";

  // Markdown's marks in prose; and a line of at least three words without a sign of code, which begins or ends like a
  // sentence.
  const SET_APART = /`[^`]+`|"[^"]+"|\([^()]+\)/g;
  const CODE_WORD = /^(?:const|let|var|return|await|async|function|class|case|throw|new|typeof|yield|delete|void|import|export)\b/;
  const WORD = /^[\p{L}\d][\p{L}\d'’./-]*[,:!?]?$/u;
  const SENTENCE = /^[\p{Lu}\p{Lo}]|^\p{L}[^:]*[.:!?]$/u;
  const PROSE_ADVICE = "This line looks like prose, and a program must be only code; remove the prose, or put ``` on the lines before and after the code";
  const LONGEST = 300;

  // The message for the parser's `error` in `text`; `token` is the unexpected token, `atEnd` that nothing follows it.
  function refused(error, text, token, atEnd) {
    const message = error.message.replace(/ \(\d+:\d+\)$/, "");
    const before = text.slice(Math.max(error.pos - 99, 0), error.pos);
    const awaits = /\bawait\s+$/.exec(before);
    if (message === "Unexpected token" && awaits && !atEnd) return new Refusal(AWAIT_ADVICE, error.pos - awaits[0].length);
    if (token === "await" && /\bfor\s+$/.test(before)) return new Refusal(AWAIT_ADVICE, error.pos);
    const advice = message === "Unexpected token" && adviceOn(before, token, atEnd);
    if (advice) return new Refusal(advice, error.pos);
    if (message === "Unexpected reserved word" && /^await\s+[\w$"'`([{]/.test(text.slice(error.pos, error.pos + 99))) {
      return new Refusal("await cannot stand here; await the value before, and use its name", error.pos);
    }
    return new Refusal(plainWords(message, token, atEnd), error.pos);
  }

  // What the words before an unexpected token require.
  function adviceOn(before, token, atEnd) {
    if (/\bconst\s+[\w$]+\s*$/.test(before) && (atEnd || /^[;,}]$/.test(token))) return CONST_ADVICE;
    if (/[{};]\s*(?:\w+\s+)*override\s+$/.test(before)) return "'override' stands in a class that extends no other";
    return "";
  }

  function plainWords(message, token, atEnd) {
    if (atEnd) return message.replace(/^Unexpected token$/, "Unexpected end of input");
    if (message === "Unexpected token" && token === "@") return DECORATED_ADVICE;
    if (message === "Unexpected token" && token) return `Unexpected token '${token.slice(0, 40)}'`;
    if (message === "Unsyntactic break") return "'break' stands in no loop, switch or block of that label";
    if (message === "Unsyntactic continue") return "'continue' stands in no loop, or in none of that label";
    if (message === "Assigning to rvalue") return "Invalid left-hand side of an assignment";
    const unseen = UNSEEN.exec(message)?.[1].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return unseen ? `Unexpected character U+${unseen}, which is invisible` : message;
  }

  function isProse(line) {
    const plain = line.replaceAll("**", "").replace(/^\s*(?:[-*#>]+\s|\d+[.)]\s)?/, "").replace(SET_APART, "code").trim();
    const words = plain.split(/\s+/);
    return words.length > 2 && words.every((word) => WORD.test(word)) && SENTENCE.test(plain) && !CODE_WORD.test(plain);
  }

  // The message for a rejected text. For JSX, both languages report only an unexpected token.
  function told(refusal, text) {
    const escaped = ESCAPED.exec(text.slice(Math.max(refusal.offset - 9, 0), refusal.offset + 9));
    if (escaped) return new Refusal(`The text is escaped for HTML (${escaped[0]}); send it as it is`, refusal.offset);
    const start = text.lastIndexOf("\n", refusal.offset - 1) + 1;
    const [line] = text.slice(start, start + LONGEST).split(/[\n\r]/, 1);
    if (PYTHON.test(line)) return new Refusal(PYTHON_ADVICE, refusal.offset);
    if (isProse(line)) return new Refusal(PROSE_ADVICE, start);
    const found = JSX.exec(text.slice(0, refusal.offset + 2000));
    const offset = found ? found.index + found[0].length : Infinity;
    if (offset > refusal.offset) return refusal;
    return new Refusal("JSX is not supported; return data, or write markup as a string", offset);
  }

  globalThis.wording = { refused, told, AWAIT_ADVICE, CONST_ADVICE, DECORATED_ADVICE };
})();
