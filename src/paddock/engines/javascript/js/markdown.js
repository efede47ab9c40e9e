// Finds the program in a model's answer, for parse.js. Evaluated after module_words.js. Positions stay: text that is not the
// program becomes blank, line by line.
"use strict";

(() => {
  const { Refusal } = globalThis.moduleWords;
  const NEWLINE = /\r\n|[\n\r\u2028\u2029]/g;
  const FENCE = /^[ \t\ufeff]*(`{3,}(?!`)|~{3,}(?!~))[ \t]*(?![ \t])([\w+#.-]*)(?![\w+#.-])[^`\n\r]*$/;
  const JAVASCRIPT = new Set(["js", "javascript", "jsx", "mjs", "cjs", "node", "ecmascript"]);
  const TYPESCRIPT = new Set(["ts", "typescript", "tsx", "mts", "cts"]);
  const MARKDOWN = new Set(["", "md", "markdown"]);
  const LABEL_ALONE = /^\s*(javascript|typescript|js|ts)[ \t]*(?=[\n\r])/i;
  const isProgram = ({ label }) => JAVASCRIPT.has(label) || TYPESCRIPT.has(label);
  const blank = (text) => text.replace(/[^\n\r\u2028\u2029]/g, "");

  function lineStarts(text) {
    return [0, ...Array.from(text.matchAll(NEWLINE), (newline) => newline.index + newline[0].length)];
  }

  // The fenced blocks between two offsets. `fence` is where a block's first fence begins, `after` where its last one ends.
  function fencedBlocks(text, from, to) {
    const blocks = [];
    let open = null;
    const starts = lineStarts(text.slice(from, to)).map((start) => from + start);
    for (const [index, start] of starts.entries()) {
      const next = starts[index + 1] ?? to;
      const fence = FENCE.exec(text.slice(start, next).replace(/[\n\r\u2028\u2029]+$/, ""));
      if (!fence) continue;
      if (!open) {
        open = { mark: fence[1], label: fence[2].toLowerCase(), fence: start, start: next, end: to };
        blocks.push(open);
      } else if (fence[1].startsWith(open.mark) && !fence[2]) {
        open.end = start;
        open = null;
      }
    }
    return blocks.flatMap((block) => within(text, block));
  }

  // A longer fence may contain a whole text with its own fences.
  function within(text, block) {
    if (!MARKDOWN.has(block.label) || block.mark.length < 4) return [block];
    const inner = fencedBlocks(text, block.start, block.end);
    return inner.some(isProgram) ? inner : [block];
  }

  // A fence inside a template literal or a comment belongs to the program. The mark in Don`t does not open a literal.
  function insideCode(before) {
    const ticks = before.replace(/\\[^]|\b`\b/g, "").split("`").length - 1;
    return ticks % 2 === 1 || before.lastIndexOf("/*") > before.lastIndexOf("*/");
  }

  // The text with everything outside of its fenced blocks blank; unchanged without blocks.
  function cutFences(text, language) {
    const named = LABEL_ALONE.exec(text);
    if (named) {
      const typed = language === "auto" && TYPESCRIPT.has(named[1].toLowerCase());
      return cutFences(blank(named[0]) + text.slice(named[0].length), typed ? "typescript" : language);
    }
    const all = /```|~~~/.test(text) ? fencedBlocks(text, 0, text.length) : [];
    if (!all.length || insideCode(text.slice(0, all[0].fence))) return { text, language };
    const known = all.filter(isProgram);
    const blocks = known.length ? known : all.filter(({ label }) => !label);
    if (!blocks.length) {
      const message = `The text has a fenced block, but it is labelled '${all[0].label}'; write JavaScript or TypeScript, labelled js or ts`;
      throw new Refusal(message, all[0].fence);
    }
    // A closing fence without an opening one.
    if (blocks.every(({ start, end }) => !text.slice(start, end).trim())) {
      return { text: text.slice(0, blocks[0].fence) + blank(text.slice(blocks[0].fence)), language };
    }
    const pieces = [];
    let done = 0;
    for (const { start, end } of blocks) {
      pieces.push(blank(text.slice(done, start)), text.slice(start, end));
      done = end;
    }
    pieces.push(blank(text.slice(done)));
    const typed = language === "auto" && blocks.some(({ label }) => TYPESCRIPT.has(label));
    return { text: pieces.join(""), language: typed ? "typescript" : language };
  }

  globalThis.markdown = { cutFences, lineStarts };
})();
