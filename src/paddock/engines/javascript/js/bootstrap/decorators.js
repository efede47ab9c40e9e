// Decorators (TC39, stage 3), as class_features.js writes them: what one class needs while it is made, and what its instances need.
//   c(decorators)  the decorators of the class           e(n, kind, isStatic, decorators, key)  an element; returns its key
//   s(class)       applies all, before static fields      k(n)  its key again
//   r(class)       what the class became                  i(n, holder, value)  the first value of a field   x(n, holder)  when it is there
function decorating() {
  let own = [];
  let made = null; // by the decorators of the class
  const elements = [];
  const metadata = create(null);
  const instanceSteps = [];
  const classSteps = [];

  const listOf = (decorators) => {
    const list = [];
    for (let i = 1; i < decorators.length; i++) { // index 0 is empty
      if (typeof decorators[i] !== "function") throw new NativeTypeError("A decorator must be a function, not " + typeof decorators[i]);
      list[i - 1] = decorators[i];
    }
    return list;
  };
  const run = (steps, holder) => {
    for (let i = 0; i < steps.length; i++) apply(steps[i], holder, []);
  };
  // The last decorator is applied first, and its context is closed when it returns.
  const applied = (decorators, value, context, steps, take) => {
    for (let i = decorators.length - 1; i >= 0; i--) {
      let isOpen = true;
      const addInitializer = (step) => {
        if (!isOpen) throw new NativeTypeError("addInitializer can be called only while its decorator runs");
        if (typeof step !== "function") throw new NativeTypeError("addInitializer needs a function");
        steps[steps.length] = step;
      };
      const result = apply(decorators[i], undefined, [value, { ...context, addInitializer, metadata }]);
      isOpen = false;
      if (result !== undefined) value = take(result, value);
    }
    return value;
  };
  const callable = (result) => {
    if (typeof result !== "function") throw new NativeTypeError("A decorator must return a function or nothing, not " + typeof result);
    return result;
  };

  function applyTo(element, target, privates) {
    const { kind, key, isStatic, decorators } = element;
    const isPrivate = element.isPrivate === true;
    const access = isPrivate ? privates[element.name] : accessBy(key, kind);
    const context = { kind, name: isPrivate ? element.name : key, static: isStatic, private: isPrivate, access };
    const first = (init) => {
      for (let i = element.inits.length; i > 0; i--) element.inits[i] = element.inits[i - 1];
      element.inits[0] = callable(init);
    };
    if (kind === "field") {
      applied(decorators, undefined, context, element.steps, (init) => void first(init));
      return;
    }
    const found = getOwnPropertyDescriptor(target, key);
    const steps = kind === "accessor" ? element.steps : isStatic ? classSteps : instanceSteps;
    if (kind === "accessor") {
      const value = applied(decorators, { get: found.get, set: found.set }, context, steps, (result, { get, set }) => {
        if (typeof result !== "object" || result === null) throw new NativeTypeError("A decorator of an accessor must return an object or nothing");
        if (result.init !== undefined) first(result.init);
        return { get: result.get === undefined ? get : callable(result.get), set: result.set === undefined ? set : callable(result.set) };
      });
      found.get = value.get;
      found.set = value.set;
    } else {
      const field = kind === "method" ? "value" : kind === "getter" ? "get" : "set";
      found[field] = applied(decorators, found[field], context, steps, callable);
    }
    setPrototypeOf(found, null);
    defineProperty(target, key, found);
  }
  const accessBy = (key, kind) => {
    const access = { has: (holder) => key in holder };
    if (kind !== "setter") access.get = (holder) => holder[key];
    if (kind === "setter" || kind === "field" || kind === "accessor") access.set = (holder, value) => { holder[key] = value; };
    return access;
  };

  return {
    c(decorators) { own = listOf(decorators); },
    e(n, kind, isStatic, decorators, key, isPrivate) {
      const element = { kind, isStatic, isPrivate, name: key, key: keyOf(isPrivate ? Symbol("private") : key), decorators: listOf(decorators), inits: [], steps: [] };
      elements[n] = element;
      return element.key;
    },
    k(n) { return elements[n].key; },
    s(target, privates) {
      const passes = [[true, false], [false, false], [true, true], [false, true]];
      for (let pass = 0; pass < passes.length; pass++) {
        for (let n = 0; n < elements.length; n++) {
          const element = elements[n];
          if (element === undefined || element.isStatic !== passes[pass][0] || (element.kind === "field") !== passes[pass][1]) continue;
          if (element.isPrivate) delete target[element.key];
          applyTo(element, element.isStatic ? target : target.prototype, privates);
        }
      }
      const after = [];
      const context = { kind: "class", name: target.name };
      const result = applied(own, target, context, after, callable);
      run(classSteps, result);
      made = { result, after };
    },
    b(holder) { run(instanceSteps, holder); },
    i(n, holder, value) {
      const { inits } = elements[n];
      for (let i = 0; i < inits.length; i++) value = apply(inits[i], holder, [value]);
      return value;
    },
    x(n, holder) { run(elements[n].steps, holder); },
    r(target) {
      if (made === null) return target;
      run(made.after, made.result);
      return made.result;
    },
  };
}
// A computed key arrives in a list of one. It is converted to a property key only once.
function keyOf(key) {
  const value = isArray(key) ? key[0] : key;
  return typeof value === "symbol" ? value : StringOf(typeof value === "object" && value !== null ? ownKeys({ [value]: 0 })[0] : value);
}
