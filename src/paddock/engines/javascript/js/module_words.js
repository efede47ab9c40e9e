// Handles `import` and `export` in a program, which is not a module, for parse.js. Type imports and the word `export` become
// blank, and `export default` becomes a declaration. Loading another module is rejected. Positions stay: every replacement
// has the length and the line breaks of the original.
"use strict";

(() => {
  const NAME = String.raw`[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*`;
  // A comment matches in one way only: a pattern that could read `////` as one or two comments would backtrack.
  const GAP = String.raw`(?:\s|\/\*(?:[^*]|\*(?!\/))*\*\/|\/\/[^\n\r\u2028\u2029]*(?=[\n\r\u2028\u2029]|$))*`;
  const STRING = `(?:"[^"\\n\\r]*"|'[^'\\n\\r]*')`;
  const FROM = `${GAP}from${GAP}${STRING}(?:${GAP}with${GAP}\\{[^{}]*\\})?[ \\t]*;?`;
  const at = (pattern) => new RegExp(pattern, "uy");

  const IMPORT_TYPE = at(
    `import${GAP}type\\b${GAP}(?:(?!from\\b)${NAME}|\\*${GAP}as${GAP}${NAME}|\\{[^{}]*\\})${FROM}`,
  );
  const IMPORT_ALIAS = at(`import${GAP}(type\\b${GAP})?(${NAME})${GAP}=${GAP}(?!require\\b)${NAME}(?:\\.${NAME})*[ \\t]*;?`);
  const IMPORT_LIST = at(`import${GAP}\\{[^{}]*\\}${FROM}`);
  const EXPORT_TYPE_FROM = at(`export${GAP}type\\b${GAP}(?:\\*(?:${GAP}as${GAP}${NAME})?|\\{[^{}]*\\})${FROM}`);
  const EXPORT_FROM = at(`export${GAP}(?:\\*|\\{[^{}]*\\}${FROM})`);
  const EXPORT_TYPE_LIST = at(`export${GAP}type\\b${GAP}\\{[^{}]*\\}[ \\t]*;?`);
  const EXPORT_LIST = at(`export${GAP}\\{[^{}]*\\}[ \\t]*;?`);
  const EXPORT_OF_OLD = at(`export${GAP}(?:=|as${GAP}namespace\\b)`);
  const DEFAULT = at("export[ \\t]+default(?![\\p{ID_Continue}$])");
  const DEFAULT_DECLARATION = at(
    `(export[ \\t]+default[ \\t]+)((?:abstract[ \\t]+)?(?:async[ \\t]+)?(function|class|interface)\\b[ \\t]*\\*?)[ \\t]*` +
      `((?!extends\\b|implements\\b)${NAME})?`,
  );
  const COMMENT = /\/\*[^]*?(?:\*\/|$)|\/\/[^\n\r\u2028\u2029]*/g;
  const A_TYPE = /^\s*type\s/;
  const AS_DEFAULT = new RegExp(`^\\s*(${NAME})\\s+as\\s+(?:default|"default"|'default')\\s*$`, "u");
  const EXPORT = at("export\\b");
  const IMPORT = at("import\\b");

  const IMPORT_ADVICE =
    "import is not available: a program is one text without modules. " +
    "Call tools through servers.<name>.<tool>(...); for types write 'import type'";

  // Rejects a text at `offset`. A final refusal applies to every language.
  class Refusal extends Error {
    constructor(message, offset, final = message === IMPORT_ADVICE) {
      super(message);
      this.offset = offset;
      this.final = final;
    }
  }

  function match(pattern, text, offset) {
    pattern.lastIndex = offset;
    return pattern.exec(text);
  }

  // A name of six characters that the program does not use, so that `const $00000 =` fits over `export default`.
  function freshName(text) {
    for (let number = 0; ; number++) {
      const name = `$${String(number).padStart(5, "0")}`;
      if (!text.includes(name)) return name;
    }
  }

  const spaces = (text) => text.replace(/[^\n\r\u2028\u2029]/g, " ");
  const put = (text, offset, added) => text.slice(0, offset) + added + text.slice(offset + added.length);

  function defaultExport(text, offset) {
    const name = freshName(text);
    const [whole, words, head, kind, own] = match(DEFAULT_DECLARATION, text, offset) ?? [];
    if (kind === "interface") return { text: put(text, offset, spaces(words)), exported: null };
    if (own) return { text: put(text, offset, spaces(words)), exported: { name: own, callable: kind !== "class" } };
    if (kind) {
      const named = `${head} ${name}`.padEnd(whole.length);
      return { text: put(text, offset, named), exported: { name, callable: kind !== "class" } };
    }
    const [short] = match(DEFAULT, text, offset);
    const named = `const ${name}`.padEnd(short.length - 1) + "=";
    return { text: put(text, offset, named), exported: { name, callable: true } };
  }

  // The text between the first braces, which must not be in a comment.
  function listed(words) {
    const [, inside = ""] = /\{([^{}]*)\}/.exec(words.replace(COMMENT, " ")) ?? [];
    const names = inside.split(",");
    return names.at(-1).trim() ? names : names.slice(0, -1);
  }

  function listsOnlyTypes(words) {
    const names = listed(words);
    return names.length > 0 && names.every((name) => A_TYPE.test(name));
  }

  // The name in `export { x as default }`, which bundlers write at the end of their output.
  function listedDefault(words) {
    const [name] = listed(words).flatMap((value) => AS_DEFAULT.exec(value)?.[1] ?? []);
    return name ? { name, callable: true } : null;
  }

  // Makes the import or export at `offset` disappear: {text, exported: null | {name, callable}, alias?}. `import a = B.c` becomes
  // a constant, whose name is `alias`. Throws a Refusal.
  function blankModuleWord(text, offset) {
    const alias = match(IMPORT_ALIAS, text, offset);
    if (alias && !alias[1]) return { text: put(text, offset, "const "), exported: null, alias: alias[2] };
    const imports = match(IMPORT_LIST, text, offset) ?? alias;
    let types = imports && (imports === alias || listsOnlyTypes(imports[0])) ? imports : null;
    for (const pattern of [IMPORT_TYPE, EXPORT_TYPE_FROM, EXPORT_TYPE_LIST]) types ??= match(pattern, text, offset);
    // The semicolon separates the lines before and after.
    if (types) return { text: put(text, offset, `;${spaces(types[0]).slice(1)}`), exported: null };
    if (match(IMPORT, text, offset) || match(EXPORT_FROM, text, offset)) throw new Refusal(IMPORT_ADVICE, offset);
    if (match(EXPORT_OF_OLD, text, offset)) {
      throw new Refusal("This form of export is not supported; end the program with 'return' instead", offset, true);
    }
    if (match(DEFAULT, text, offset)) return defaultExport(text, offset);
    const list = match(EXPORT_LIST, text, offset);
    if (list) return { text: put(text, offset, `;${spaces(list[0]).slice(1)}`), exported: listedDefault(list[0]) };
    if (match(at(`export${GAP}default\\b`), text, offset)) {
      throw new Refusal("Write 'export default' with one space between the two words", offset, true);
    }
    if (!match(EXPORT, text, offset)) throw new Refusal("import and export may only appear at the top level", offset);
    return { text: put(text, offset, "      "), exported: null };
  }

  globalThis.moduleWords = { Refusal, blankModuleWord, freshName, IMPORT_ADVICE };
})();
