// What a refusal says, in the words of whoever wrote the program, for intake.js. Evaluated after module_words.js.
"use strict";

(() => {
  const { Refusal } = globalThis.moduleWords;
  const AWAIT_ADVICE = "await is only valid in async functions; write `async` before the function that it stands in";
  const UNSEEN = /^Unexpected character '([\p{C}\p{Z}])'$/u;
  // A tag that is closed, or an empty one, where an expression begins. It is looked for in refused texts only.
  const JSX = /(?:[=(,:?&|>]|\breturn)\s*(?=<(?:>|([A-Za-z][\w.:-]*)(?:\s[^<>]{0,500})?(?:\/>|>[^]{0,2000}?<\/\1\s*>)))/;

  // What to say of the parser's `error` in `text`; `token` is what it could not place, `atEnd` that nothing follows.
  function refused(error, text, token, atEnd) {
    const message = error.message.replace(/ \(\d+:\d+\)$/, "");
    const awaits = /\bawait\s+$/.exec(text.slice(Math.max(error.pos - 99, 0), error.pos));
    if (message === "Unexpected token" && awaits && !atEnd) return new Refusal(AWAIT_ADVICE, error.pos - awaits[0].length);
    return new Refusal(plainWords(message, token, atEnd), error.pos);
  }

  function plainWords(message, token, atEnd) {
    if (atEnd) return message.replace(/^Unexpected token$/, "Unexpected end of input");
    if (message === "Unexpected token" && token) return `Unexpected token '${token.slice(0, 40)}'`;
    if (message === "Unexpected character '@'") return "Decorators are not supported; call the function by hand";
    if (message === "Unsyntactic break") return "'break' stands in no loop, switch or block of that label";
    if (message === "Unsyntactic continue") return "'continue' stands in no loop, or in none of that label";
    if (message === "Assigning to rvalue") return "Invalid left-hand side of an assignment";
    const unseen = UNSEEN.exec(message)?.[1].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return unseen ? `Unexpected character U+${unseen}, which cannot be seen` : message;
  }

  // What to tell of a text that is refused: of JSX both languages only say that a token is unexpected.
  function told(refusal, text) {
    const found = JSX.exec(text.slice(0, refusal.offset + 2000));
    const offset = found ? found.index + found[0].length : Infinity;
    if (offset > refusal.offset) return refusal;
    return new Refusal("JSX is not supported; return data, or write markup as a text", offset);
  }

  globalThis.wording = { refused, told, AWAIT_ADVICE };
})();
