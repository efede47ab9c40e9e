// Turns the text of a person or a model into one wrapped JavaScript program. Evaluated after vendor/acorn.js,
// module_words.js, wording.js, markdown.js, class_features.js and session_names.js; defines the pure function intake(requestJson) -> responseJson.
//
//   request    {"source", "language": "auto" | "javascript" | "typescript", "session"?: true}
//   response   {"ok": true, "code", "language", "positions": {"prefix", "insertions", "map"}, "uncalled": [{"name", "call"}],
//               "numbers"?, "inexact"?: [[written, double]], "text"?}
//           or {"ok": false, "error": {"name": "SyntaxError", "message", "line", "column"}}
//           or {"ok": false, "needs": "typescript"}: evaluate typescript.js, loadTypeScript(bytes), and repeat the request
//
// `code` passes an async function of one parameter, `input`, to `__paddock` (bootstrap/program.js). The text keeps its
// positions: prose around fences becomes empty lines, `export` and types become spaces. `text` is the source after that, with
// its types, where it differs. Additions (the head on line 1,
// `return ` before the last expression) are listed in `positions`; source_map.py maps positions back.
// `numbers` are those that a double may not hold, as JSON writes them; `inexact` the whole ones of them that no double is. A program is complete for the parser before it is wrapped, so that no text can close the wrapper.
"use strict";

(() => {
  // f<T>(x) is also JavaScript, two comparisons; TypeScript reads a call, which is what its author means.
  const GENERIC_CALL = /[\w$]\s*<\s*[\w${"'[](?:[\w$.,\s[\]{}"'?:;]|\|(?!\|)|&(?!&))*>\s*[(`]/;
  const FUNCTIONS = new Set(["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"]);
  const { Refusal, blankModuleWord, freshName, IMPORT_ADVICE } = globalThis.moduleWords;
  const { refused, told, CONST_ADVICE } = globalThis.wording;
  const { cutFences, lineStarts } = globalThis.markdown;
  const { reading, lower } = globalThis.classFeatures;
  const { boundNames, share } = globalThis.sessionNames;

  const Parser = acorn.Parser.extend(
    reading,
    (Base) =>
      class extends Base {
        parseExprImport() {
          this.raise(this.start, IMPORT_ADVICE);
        }

        // The program is the body of an async function, where `await` is not a name.
        checkUnreserved(reference) {
          if (reference.name === "await" && !this.inFunction) this.raise(reference.start, "Unexpected reserved word");
          super.checkUnreserved(reference);
        }

        parseLiteral(value) {
          const node = super.parseLiteral(value);
          if (typeof value === "number" && node.raw.length > SHORT) noteNumber(node.raw, value);
          return node;
        }

        // A script may not have `using` at its top level, but the program is the body of a function.
        get allowUsing() {
          return super.allowUsing || this.scopeStack.length === 1;
        }

        // The only case in which a script is parsed differently after it is wrapped.
        skipLineComment(length) {
          if (length !== "//".length) this.raise(this.pos, "HTML-like comments (<!-- and -->) are not supported");
          super.skipLineComment(length);
        }
      },
  );

  const SHORT = 15; // a double holds every number of so many characters
  const [LONGEST, NUMBERS] = [4000, 1000]; // the limits of bootstrap/numbers.js
  const DECIMAL = /^(\d*)(?:\.(\d*))?(?:e([+-]?\d+))?$/i;
  const longNumbers = new Set();
  const INEXACT = 8; // are named
  const inexactNumbers = new Map(); // whole ones that no double holds: as they are written, and their doubles

  function noteNumber(raw, value) {
    const plain = raw.replaceAll("_", "");
    if (value === 0 || value === Infinity || plain.length > LONGEST || longNumbers.size >= NUMBERS) return;
    if (/^(?:0[box][\da-f]+|\d+)$/i.test(plain)) {
      const whole = BigInt(plain);
      if (whole !== BigInt(value) && inexactNumbers.size < INEXACT) inexactNumbers.set(raw, String(value));
      return void longNumbers.add(String(whole));
    }
    const [, whole, fraction, exponent] = DECIMAL.exec(plain);
    longNumbers.add(`${whole || "0"}${fraction ? `.${fraction}` : ""}${exponent ? `e${exponent}` : ""}`);
  }

  const MODULE_WORDS = 100;
  const UNCALLED = 5; // maximum number of declarations that the warning names
  const OPTIONS = {
    ecmaVersion: "latest",
    sourceType: "script",
    strict: true,
    allowReturnOutsideFunction: true,
    allowAwaitOutsideFunction: true,
  };

  // The offset of the first token at or after `offset`.
  function afterTrivia(text, offset) {
    const token = /[^\s]/g;
    for (token.lastIndex = offset; ; ) {
      const at = token.exec(text)?.index ?? text.length;
      let end = -1;
      if (text.startsWith("/*", at)) end = text.indexOf("*/", at + 2) + 2;
      else if (text.startsWith("//", at)) end = at + text.slice(at).search(/[\n\r\u2028\u2029]|$/);
      if (end < 2) return at;
      token.lastIndex = end;
    }
  }

  // --- parsing ----------------------------------------------------------------------------------------------------

  function guarded(text, start, method) {
    const parser = new Parser(OPTIONS, text, start);
    try {
      return method(parser);
    } catch (error) {
      if (!(error instanceof SyntaxError) || error.pos === undefined) throw error;
      const token = text.slice(parser.start, parser.end);
      const atEnd = afterTrivia(text, error.pos) >= text.length;
      throw refused(error, text, token, atEnd);
    }
  }

  // The text as one expression: an object literal or an anonymous function, which is not a statement.
  function parseExpression(text, start) {
    const expression = guarded(text, start, (parser) => {
      parser.nextToken();
      return parser.parseExpression();
    });
    let end = afterTrivia(text, expression.end);
    while (text[end] === ";") end = afterTrivia(text, end + 1);
    if (end < text.length) return null;
    return [{ type: "ExpressionStatement", start, end: expression.end, expression }];
  }

  function parseProgram(text) {
    const start = afterTrivia(text, 0);
    let refusal = null;
    if (text[start] === "{") {
      try {
        const body = parseExpression(text, start);
        if (body?.[0].expression.type === "ObjectExpression") return body;
      } catch (error) {
        refusal = later(null, error);
      }
    }
    try {
      return guarded(text, 0, (parser) => parser.parse()).body;
    } catch (error) {
      refusal = later(error, refusal);
    }
    if (/(?:async\s+)?function\b/y.test(text.slice(start, start + 99))) {
      try {
        const body = parseExpression(text, start);
        if (body) return body;
      } catch (error) {
        refusal = later(refusal, error);
      }
    }
    throw refusal;
  }

  // Of two refusals of the same text, the later position understood more of it.
  function later(first, second) {
    for (const error of [first, second]) if (error && !(error instanceof Refusal)) throw error;
    if (!first || !second) return first ?? second;
    return second.offset > first.offset ? second : first;
  }

  // Every import or export costs another parse.
  function nextModuleWord(text, offset, words) {
    if (words === MODULE_WORDS) throw new Refusal(`More than ${MODULE_WORDS} imports and exports`, offset, true);
    return blankModuleWord(text, offset);
  }

  // Both readers return {text, typed, body, exported, aliases, map, language}.

  function readJavaScript(source) {
    let text = source;
    let exported = null;
    const aliases = [];
    for (let words = 0; ; words++) {
      try {
        return { text, typed: text, body: parseProgram(text), exported, aliases, map: null, language: "javascript" };
      } catch (error) {
        if (!(error instanceof Refusal) || !/may appear only with 'sourceType/.test(error.message)) throw error;
        const step = nextModuleWord(text, error.offset, words);
        text = step.text;
        exported = step.exported ?? exported;
        if (step.alias) aliases.push(step.alias);
      }
    }
  }

  function readTypeScript(source) {
    let text = source;
    let exported = null;
    const aliases = [];
    for (let words = 0; ; words++) {
      try {
        const { code, map } = globalThis.eraseTypes(text);
        return { text: code, typed: text, body: parseErased(code, map, text), exported, aliases, map, language: "typescript" };
      } catch (error) {
        if (error instanceof Error && !(error instanceof Refusal)) throw error;
        const step = error.moduleWord ? nextModuleWord(text, error.offset, words) : null;
        if (!step) throw error instanceof Refusal ? error : new Refusal(error.message, error.offset);
        text = step.text;
        exported = step.exported ?? exported;
        if (step.alias) aliases.push(step.alias);
      }
    }
  }

  function parseErased(code, map, text) {
    try {
      return parseProgram(code);
    } catch (error) {
      if (!map || !(error instanceof Refusal)) throw error;
      const place = placeOf(code, error.offset);
      const before = map.slice(0, place.line).flat().concat(map[place.line].filter(([column]) => column <= place.column));
      const [, line, column] = before.at(-1) ?? [0, 0, 0];
      throw new Refusal(error.message, (lineStarts(text)[line] ?? text.length) + column);
    }
  }

  function read(source, language) {
    let javascript = null;
    let refusal = null;
    try {
      javascript = readJavaScript(source);
      if (language === "javascript" || !GENERIC_CALL.test(source)) return javascript;
    } catch (error) {
      if (!(error instanceof Refusal) || language === "javascript" || error.final) throw error;
      refusal = error;
    }
    if (!globalThis.eraseTypes) throw { needs: "typescript" };
    try {
      return readTypeScript(source);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (javascript) return javascript;
      // Both languages reject `const x: T;`, JavaScript one character later, at the colon.
      const clearer = error.final || error.message === CONST_ADVICE;
      throw language === "typescript" || clearer ? error : later(refusal, error);
    }
  }

  // --- the value of a program -------------------------------------------------------------------------------------

  const isFunction = (node) => FUNCTIONS.has(node?.type) && !node.generator;
  const isDeclaration = ({ type }) => type.endsWith("Declaration");

  // Statements without a value after the last expression: `f(); function f() {}`.
  function isSilent(node) {
    if (node.type === "EmptyStatement" || node.type === "FunctionDeclaration") return true;
    if (node.directive === "use strict") return true;
    return node.type === "VariableDeclaration" && node.kind === "var" && node.declarations.every(({ init }) => !init);
  }

  // A REPL's completion value for the plain cases: expression, block, if/else, try/catch. A loop or a switch has none.
  function returnLast(statements, insert) {
    const last = statements.findLast((node) => !isSilent(node));
    if (last?.type === "ExpressionStatement") insert(last.start, "return ");
    else if (last?.type === "BlockStatement") returnLast(last.body, insert);
    else if (last?.type === "IfStatement") {
      returnLast([last.consequent], insert);
      if (last.alternate) returnLast([last.alternate], insert);
    } else if (last?.type === "TryStatement") {
      returnLast(last.block.body, insert);
      if (last.handler) returnLast(last.handler.body.body, insert);
    }
  }

  // --- programs of nothing but declarations -------------------------------------------------------------------------

  const HOST = new Set(["servers", "paddock", "console", "setTimeout", "sleep"]);
  const CALLS = new Set(["CallExpression", "NewExpression", "TaggedTemplateExpression"]);

  // The nodes that run with a node: code in functions and class fields runs later. A loop, not recursion, because a hostile
  // program can be nested very deeply.
  function* nodesAtOnce(root) {
    const todo = [root];
    for (let node; (node = todo.pop()); ) {
      if (FUNCTIONS.has(node.type)) continue;
      yield node;
      const named = !node.computed && ["MemberExpression", "Property", "PropertyDefinition", "MethodDefinition"].includes(node.type);
      for (const [field, value] of Object.entries(node)) {
        if (named && (field === "key" || field === "property")) continue;
        if (field === "value" && node.type === "PropertyDefinition" && !node.static) continue;
        for (const child of Array.isArray(value) ? value : [value]) if (typeof child?.type === "string") todo.push(child);
      }
    }
  }

  // An argument of `throw` goes through the bootstrap, which remembers the position of a value without a stack.
  function markThrown(body, mark, insert) {
    const todo = [...body];
    for (let node; (node = todo.pop()); ) {
      if (node.type === "ThrowStatement" && node.argument.type !== "NewExpression") {
        const { type, start, end } = node.argument;
        insert(start, type === "SequenceExpression" ? `${mark}((` : `${mark}(`);
        insert(end, type === "SequenceExpression" ? "))" : ")");
      }
      for (const value of Object.values(node)) {
        for (const child of Array.isArray(value) ? value : [value]) if (typeof child?.type === "string") todo.push(child);
      }
    }
  }

  const mentions = (root, name) => nodesAtOnce(root).some((node) => node.type === "Identifier" && node.name === name);

  // Whether code waits, or calls something that can have an effect: the host, or a declaration of the program.
  function works(root, declared) {
    const nodes = [...nodesAtOnce(root)];
    if (nodes.some(({ type }) => type === "AwaitExpression")) return true;
    const acts = nodes.some(({ type, name }) => type === "Identifier" && (HOST.has(name) || declared.has(name)));
    return acts && nodes.some(({ type }) => CALLS.has(type));
  }

  // What a declaration offers to call: {name, call} for a function, a class, and each function of an object.
  function callables({ type, id, init, body }) {
    if (type === "ClassDeclaration") {
      const method = body.body.find((each) => each.kind === "method" && !each.static && !each.computed)?.key.name;
      return [{ name: id.name, call: method ? `new ${id.name}().${method}()` : `new ${id.name}()` }];
    }
    if (type === "FunctionDeclaration" || FUNCTIONS.has(init?.type)) return [{ name: id.name, call: `${id.name}()` }];
    const members = init?.type === "ObjectExpression" && id.name ? init.properties : [];
    const methods = members.filter((each) => FUNCTIONS.has(each.value?.type) && each.kind === "init" && each.key.name && !each.computed);
    return methods.map(({ key }) => ({ name: `${id.name}.${key.name}`, call: `${id.name}.${key.name}()` }));
  }

  // How to run a program that consists of declarations: `entry` is the function to call, `main` or the only one. If there is
  // none, and the program itself does no work, `uncalled` lists its declarations.
  function readDeclarations(statements) {
    if (!statements.every(isDeclaration)) return {};
    const named = statements.flatMap((node) => (node.type === "VariableDeclaration" ? node.declarations : [node]));
    const functions = named.filter((node) => isFunction(node) || isFunction(node.init));
    const others = named.filter((node) => !functions.includes(node));
    if (functions.some(({ id }) => id.name === "main") && !others.some((node) => mentions(node, "main"))) return { entry: "main" };
    if (named.length === 1 && functions.length === 1) return { entry: functions[0].id.name };
    const uncalled = named.flatMap(callables);
    const declared = new Set(uncalled.map(({ name }) => name.split(".")[0]));
    const ran = named.flatMap((node) => (node.type === "ClassDeclaration" ? node.body : (node.init ?? [])));
    return ran.some((node) => works(node, declared)) ? {} : { uncalled };
  }

  function declaresInput(statements) {
    return statements.some((node) => {
      if (node.type === "ClassDeclaration") return node.id.name === "input";
      if (node.type !== "VariableDeclaration" || node.kind === "var") return false;
      return node.declarations.some(({ id }) => boundNames(id).includes("input"));
    });
  }

  const callDefault = (name, parameter) =>
    `return typeof ${name}==="function"?${name}(${parameter}):typeof ${name}?.run==="function"?${name}.run(${parameter}):${name};`;

  // An unused alias may be a type, which does not exist at run time: `import T = Types.T`.
  function blankAliases(text, body, aliases) {
    for (const { type, start, end, declarations } of aliases.length > 0 ? body : []) {
      const name = type === "VariableDeclaration" && declarations.length === 1 ? declarations[0].id.name : undefined;
      if (aliases.includes(name) && countNames(body, name) === 1) text = text.slice(0, start) + text.slice(start, end).replace(/./gu, (unit) => " ".repeat(unit.length)) + text.slice(end);
    }
    return text;
  }
  function countNames(body, name) {
    let count = 0;
    const todo = [...body];
    for (let node; (node = todo.pop()); ) {
      if (node.type === "Identifier" && node.name === name) count++;
      for (const [field, value] of Object.entries(node)) {
        if (field === "property" && !node.computed) continue;
        for (const child of Array.isArray(value) ? value : [value]) if (typeof child?.type === "string") todo.push(child);
      }
    }
    return count;
  }

  // In a session, nothing is called that the text does not call: a declaration is for later programs.
  function wrap({ text, body, exported, aliases, map, language }, inSession) {
    const insertions = [];
    const insert = (offset, added) => insertions.push([offset, added]);
    const statements = body.filter((node) => node.type !== "EmptyStatement" && !node.directive);
    const parameter = inSession || declaresInput(statements) ? freshName(text) : "input";
    const { entry, uncalled = [] } = exported || inSession ? {} : readDeclarations(statements);
    const only = statements.length === 1 && statements[0].expression;
    let value = "";
    if (exported?.callable === false) value = `return ${exported.name};`;
    else if (exported) value = callDefault(exported.name, parameter);
    else if (entry) value = `return ${entry}(${parameter});`;
    else if (isFunction(only) && !inSession) {
      const { start, end } = statements[0];
      insert(start, "return (");
      insert(text[end - 1] === ";" ? end - 1 : end, `)(${parameter})`);
    } else returnLast(body, insert);

    const mark = /\bthrow\b/.test(text) ? freshName(`${text}${parameter}`) : "";
    if (mark) markThrown(body, mark, insert);
    const blanked = blankAliases(text, body, aliases);
    const shared = inSession ? share(blanked, body, insert) : null;
    const lowered = lower(body, shared?.text ?? blanked, `${parameter}${mark}`, insert);
    shared?.finish();
    insertions.sort(([one], [other]) => one - other);
    const parameters = lowered.helper ? [parameter, mark || lowered.unused, lowered.helper] : mark ? [parameter, mark] : [parameter];
    let declaring = "";
    if (shared) {
      for (let taken = `${text}${parameter}${mark}${lowered.helper}${lowered.unused}`; parameters.length < 4; taken += parameters.at(-1)) {
        parameters.push(freshName(taken));
      }
      declaring = shared.head(parameters[3]);
    }
    const prefix = `"use strict";__paddock(async function(${parameters}){${declaring}`;
    const pieces = [prefix];
    let done = 0;
    for (const [offset, added] of insertions) {
      pieces.push(lowered.text.slice(done, offset), added);
      done = offset;
    }
    pieces.push(lowered.text.slice(done), "\n", value, "})\n//# sourceURL=paddock:program");
    const starts = insertions.length ? lineStarts(text) : [];
    const listed = insertions.map(([offset, added]) => {
      const { line, column } = placeOf(text, offset, starts);
      return [line, column, added.length];
    });
    const numbers = longNumbers.size > 0 ? { numbers: [...longNumbers], inexact: [...inexactNumbers] } : {};
    const positions = { prefix: prefix.length, insertions: listed, map };
    const named = uncalled.slice(0, UNCALLED);
    return { ok: true, code: pieces.join(""), language, positions, uncalled: named, ...numbers };
  }

  // --- places -----------------------------------------------------------------------------------------------------

  // Line and column of an offset, both from 0.
  function placeOf(text, offset, starts = lineStarts(text)) {
    let low = 0;
    for (let high = starts.length; high - low > 1; ) {
      const middle = (low + high) >> 1;
      if (starts[middle] <= offset) low = middle;
      else high = middle;
    }
    return { line: low, column: offset - starts[low] };
  }

  // --- intake -----------------------------------------------------------------------------------------------------

  function answer(source, text, language, inSession) {
    let reading = { text };
    longNumbers.clear();
    inexactNumbers.clear();
    try {
      const half = text.isWellFormed() ? -1 : text.search(/\p{Surrogate}/u);
      if (half >= 0) throw new Refusal("Half of a character (a lone surrogate); write it as an escape like \\ud83d", half, true);
      reading = cutFences(text, language);
      const whole = read(reading.text, reading.language);
      const wrapped = wrap(whole, inSession);
      return whole.typed === source ? wrapped : { ...wrapped, text: whole.typed };
    } catch (error) {
      if (error.needs) return { ok: false, needs: error.needs };
      if (!(error instanceof Refusal)) throw error;
      const refusal = told(error, reading.text);
      // The program ends at its last character; blank lines or prose may follow.
      const offset = Math.min(refusal.offset, reading.text.trimEnd().length);
      const { line, column } = placeOf(reading.text, offset);
      const message = refusal.message.toWellFormed(); // a token cut in the middle of an emoji
      return { ok: false, error: { name: "SyntaxError", message, line: line + 1, column: column + 1 } };
    }
  }

  globalThis.intake = (requestJson) => {
    const { source, language, session = false, alias } = JSON.parse(requestJson);
    HOST.add(alias);
    const text = source.replace(/^\ufeff/, "").replace(/^#!/, "//");
    return JSON.stringify(answer(source, text, language, session));
  };
})();
