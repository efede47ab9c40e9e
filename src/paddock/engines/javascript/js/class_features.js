// Decorators and `accessor`, which V8 does not have: parses them, and rewrites the class without them. For parse.js.
//
//   classFeatures.reading(Base)             a parser that also reads them; the results are in the nodes of classes
//   classFeatures.lower(root, text, taken, insert)
//                                           returns {text, helper, unused}. Each character keeps its position in the text;
//                                           additions go through `insert(offset, added)`. `helper` is the name of the helper of
//                                           bootstrap/decorators.js, "" if it is not needed; `unused` is another name that is
//                                           neither in the text nor in `taken`
//
//   @d class C {              let C=(S=>(S.c([,d ]),S.r(     class C {static{S.s(this,{})}
//     @e m() {}        ->       [S.e(0,"method",false,[,e ],"m")]() {}
//     @f x = 1;                 [S.e(1,"field",false,[,f ],"x")] = S.i(1,this,1);#Sx1=S.x(1,this);
//     accessor y = 2;           get y(){return this.#Sa2}set y(v){this.#Sa2=v}#Sa2 = 2;
//   }                         })))(HELPER());
//
// Decorators move to the computed keys, so that both are evaluated in the order of the text.
"use strict";

(() => {
  const AT = new acorn.TokenType("@", { beforeExpr: true });
  const { tokTypes } = acorn;
  const { DECORATED_ADVICE } = globalThis.wording;
  const { freshName } = globalThis.moduleWords;
  const ACCESSOR = /(static\s+)?accessor[ \t]+(?=[\p{ID_Start}$_#["'\d\\])/uy;
  const HAS = /@|\baccessor\b/;

  const reading = (Base) =>
    class extends Base {
      pendingDecorators = null;

      getTokenFromCode(code) {
        if (code !== 64) return super.getTokenFromCode(code);
        this.pos++;
        return this.finishToken(AT);
      }

      readDecorators() {
        const found = [];
        while (this.type === AT) {
          const { start } = this;
          this.next();
          if (this.type === tokTypes.parenL) this.parseParenExpression();
          else {
            this.parseIdent();
            while (this.eat(tokTypes.dot)) this.parseIdent(true);
            if (this.eat(tokTypes.parenL)) this.parseExprList(tokTypes.parenR, true);
          }
          found.push(start);
        }
        return found;
      }

      decorateClass() {
        this.pendingDecorators = this.readDecorators();
        if (this.type === tokTypes._export) this.raise(this.start, "'import' and 'export' may appear only with 'sourceType: module'");
        if (this.type !== tokTypes._class) this.raise(this.start, DECORATED_ADVICE);
      }

      parseStatement(context, topLevel, exports) {
        if (this.type === AT) this.decorateClass();
        return super.parseStatement(context, topLevel, exports);
      }

      parseExprAtom(errors, forInit, forNew) {
        if (this.type === AT) this.decorateClass();
        return super.parseExprAtom(errors, forInit, forNew);
      }

      parseClass(node, isStatement) {
        const decorators = this.pendingDecorators ?? [];
        this.pendingDecorators = null;
        const made = super.parseClass(node, isStatement);
        made.decorators = decorators;
        return made;
      }

      // `accessor` is hidden from the parser, so that it reads a field.
      takeAccessor() {
        ACCESSOR.lastIndex = this.start;
        const found = ACCESSOR.exec(this.input);
        if (!found) return -1;
        const offset = this.start + (found[1] ?? "").length;
        if (found[1]) this.input = put(this.input, offset, BLANK);
        else this.next();
        return offset;
      }

      parseClassElement(allowsSuper) {
        const decorators = this.readDecorators();
        const head = this.start;
        const accessor = this.takeAccessor();
        const element = super.parseClassElement(allowsSuper);
        if (decorators.length === 0 && accessor < 0) return element;
        const isMember = element?.type === "PropertyDefinition" || (element?.type === "MethodDefinition" && element.kind !== "constructor");
        if (accessor >= 0 && element?.type !== "PropertyDefinition") this.raise(accessor, "'accessor' stands before a field");
        if (!isMember) this.raise(head, DECORATED_ADVICE);
        if (element.key.type === "PrivateIdentifier" && decorators.length > 0 && (accessor >= 0 || element.type === "MethodDefinition")) {
          this.raise(decorators[0], "A private method or accessor cannot have decorators; leave out the #, or call the function by hand");
        }
        element.feature = { decorators, head, accessor };
        return element;
      }
    };

  const BLANK = " ".repeat("accessor".length);
  const put = (text, offset, added) => text.slice(0, offset) + added + text.slice(offset + added.length);
  const blank = (text, from, to) => put(text, from, text.slice(from, to).replace(/[^\n\r\u2028\u2029]/g, " "));

  function* classesIn(root) {
    const todo = [...root];
    for (let node; (node = todo.pop()); ) {
      if (node.type === "ClassDeclaration" || node.type === "ClassExpression") yield node;
      for (const value of Object.values(node)) {
        for (const child of Array.isArray(value) ? value : [value]) if (typeof child?.type === "string") todo.push(child);
      }
    }
  }

  function lower(root, text, taken, insert) {
    const state = { text, helper: "", unused: "" };
    if (!HAS.test(text)) return state;
    let used = text + taken;
    const name = () => {
      const fresh = freshName(used);
      used += fresh;
      return fresh;
    };
    const [helper, scope, unused] = [name(), name(), name()];
    for (const node of classesIn(root)) lowerClass(node, state, helper, scope, insert);
    return { ...state, unused };
  }

  function lowerClass(node, state, helper, scope, insert) {
    const elements = node.body.body.filter(({ feature }) => feature);
    const helped = node.decorators?.length > 0 || elements.some(({ feature, computed }) => feature.decorators.length > 0 || computed);
    if (helped) {
      state.helper = helper;
      const isDeclared = node.type === "ClassDeclaration";
      insert(node.decorators[0] ?? node.start, `${isDeclared && !node.isShared ? `let ${node.id.name}=` : ""}(${scope}=>(${scope}.c([`);
      for (const start of node.decorators) state.text = put(state.text, start, ",");
      insert(node.start, `]),${scope}.r(`);
      insert(node.end, `)))(${helper}())${isDeclared ? ";" : ""}`);
      const names = elements.filter(({ key, feature }) => key.type === "PrivateIdentifier" && feature.decorators.length > 0);
      const privates = names.map(({ key: { name } }) => `"#${name}":{get:o=>o.#${name},set:(o,v)=>{o.#${name}=v},has:o=>#${name} in o}`);
      const begins = elements.some((each) => each.type === "MethodDefinition" && !each.static);
      insert(node.body.start + 1, `static{${scope}.s(this,{${privates}})}${begins ? `#${scope}=${scope}.b(this);` : ""}`);
    }
    elements.forEach((element, index) => lowerElement(element, index, state, scope, insert));
  }

  function lowerElement(element, index, state, scope, insert) {
    const { feature, key, computed, value } = element;
    const { decorators, head, accessor } = feature;
    const isPrivate = key.type === "PrivateIdentifier";
    const isField = element.type === "PropertyDefinition";
    const isHelped = decorators.length > 0 || (accessor >= 0 && computed);
    const from = computed ? state.text.lastIndexOf("[", key.start) : key.start;
    const to = computed ? state.text.indexOf("]", key.end) + 1 : key.end;
    const quote = key.type === "Identifier" && !computed ? '"' : "";
    const own = element.static ? "static " : "";
    const storage = `#${scope}a${index}`;
    const first = decorators[0] ?? head;
    if (accessor >= 0) state.text = put(state.text, accessor, BLANK);
    for (const start of decorators) state.text = put(state.text, start, ",");
    if (isPrivate) {
      if (decorators.length > 0) {
        insert(first, `static[${scope}.e(${index},"field",${element.static},[`);
        insert(head, `],"#${key.name}",true)](){}`);
      }
    } else if (!isHelped) {
      insert(from, "get ");
      insert(to, `(){return this.${storage}}${own}set ${state.text.slice(from, to)}(v){this.${storage}=v}${own}${storage}`);
    } else {
      const kind = accessor >= 0 ? "accessor" : isField ? "field" : element.kind === "get" ? "getter" : element.kind === "set" ? "setter" : "method";
      const words = { accessor: "get", getter: "get", setter: "set" }[kind] ?? `${value?.async && !isField ? "async " : ""}${value?.generator && !isField ? "*" : ""}`;
      insert(first, `${own}${words}[${scope}.e(${index},"${kind}",${element.static},[`);
      state.text = blank(state.text, head, from);
      insert(from, `],${quote}`);
      const rest = accessor >= 0 ? `(){return this.${storage}}${own}set[${scope}.k(${index})](v){this.${storage}=v}${own}${storage}` : "";
      insert(to, `${quote})]${rest}`);
    }
    if (!isField || !isHelped) return;
    if (value) {
      insert(value.start, `${scope}.i(${index},this,`);
      insert(value.end, ")");
    } else insert(to, `=${scope}.i(${index},this)`);
    insert(element.end, `;${own}#${scope}x${index}=${scope}.x(${index},this);`);
  }

  globalThis.classFeatures = { reading, lower };
})();
