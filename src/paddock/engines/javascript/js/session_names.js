// Makes the top-level declarations of a program last longer than the program, for parse.js. A program is the body of a function,
// in which declarations would be local. Each one becomes an assignment to a property of the global object, which
// bootstrap/session.js has declared when the body begins.
//
//   sessionNames.share(text, body, insert)
//                                   returns {text, head, finish}. Each character keeps its position in the text; additions go
//                                   through `insert(offset, added)`. `head(declare)` is the call that declares the names;
//                                   `finish()` makes the insertions that must follow those of others at the same offset
//
//   const {a, b} = f();        ;    ({a, b} = f());
//   let x;                     ;  x=void 0;
//   class C {}                 ;C=class C {};
//   function g() {}            function $00000g() {}          `declare` names it `g` again
//   for (var i of list) {}     for (    i of list) {}
//
// `using` stays local: what it holds is disposed of when the program ends.
"use strict";

(() => {
  const { freshName } = globalThis.moduleWords;
  const FUNCTIONS = new Set(["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression", "StaticBlock"]);
  const LISTS = new Set(["BlockStatement", "SwitchCase"]);
  const LOOPS = new Set(["ForStatement", "ForInStatement", "ForOfStatement"]);

  function boundNames(pattern) {
    if (!pattern) return [];
    if (pattern.type === "Identifier") return [pattern.name];
    const parts = pattern.elements ?? pattern.properties ?? [pattern.left ?? pattern.argument ?? pattern.value];
    return parts.flatMap(boundNames);
  }

  // The `var` declarations of the function's own scope, each with the node that holds it.
  function* varsIn(body) {
    const todo = body.map((node) => [node, null]);
    for (let next; (next = todo.pop()); ) {
      const [node, holder] = next;
      if (FUNCTIONS.has(node.type)) continue;
      if (node.type === "VariableDeclaration" && node.kind === "var") yield { node, holder };
      for (const value of Object.values(node)) {
        for (const child of Array.isArray(value) ? value : [value]) if (typeof child?.type === "string") todo.push([child, node]);
      }
    }
  }

  function share(source, body, insert) {
    let text = source;
    const names = { let: new Set(), const: new Set(), var: new Set() };
    const functions = new Set();
    const prefix = freshName(text);
    const ends = [];

    // Replaces the word `let`, `const` or `var`. A semicolon separates the assignment from the statement before.
    function dropWord({ start, kind }, separated) {
      const word = (separated ? ";" : "").padEnd(kind.length);
      text = text.slice(0, start) + word + text.slice(start + kind.length);
    }
    function assign(node, holder) {
      const inLoop = LOOPS.has(holder?.type) && (node === holder.init || node === holder.left);
      dropWord(node, !inLoop && (holder === null || LISTS.has(holder.type)));
      for (const { id, init, end } of node.declarations) {
        for (const name of boundNames(id)) names[node.kind].add(name);
        if (!init && node.kind === "let") insert(id.end, "=void 0");
        if (inLoop || id.type !== "ObjectPattern") continue;
        insert(id.start, "(");
        ends.push([end, ")"]);
      }
      if (!inLoop && text[node.end - 1] !== ";") ends.push([node.end, ";"]);
    }

    for (const { node, holder } of varsIn(body)) assign(node, holder);
    for (const node of body) {
      if (node.type === "VariableDeclaration" && (node.kind === "let" || node.kind === "const")) assign(node, null);
      else if (node.type === "FunctionDeclaration") {
        functions.add(node.id.name);
        insert(node.id.start, prefix);
      } else if (node.type === "ClassDeclaration") {
        names.let.add(node.id.name);
        node.isShared = true; // for class_features.js
        insert(node.decorators?.[0] ?? node.start, `;${node.id.name}=`);
        ends.push([node.end, ";"]);
      }
    }
    for (const name of functions) names.var.delete(name);

    const list = (found) => JSON.stringify([...found]);
    const pairs = [...functions].map((name) => `["${name}",${prefix}${name}]`);
    const some = functions.size + names.let.size + names.const.size + names.var.size > 0;
    const head = (declare) => (some ? `${declare}([${pairs}],${list(names.let)},${list(names.const)},${list(names.var)});` : "");
    const finish = () => {
      for (const [offset, added] of ends) insert(offset, added);
    };
    return { text, head, finish };
  }

  globalThis.sessionNames = { boundNames, share };
})();
