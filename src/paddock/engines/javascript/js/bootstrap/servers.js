// `servers`: a member for each server, with a member for each of its tools. Any name can be called without a lookup. When a
// program lists the names (`Object.keys`, `in`, JSON), they are requested from the host once.
const refuse = () => false;
function catalogue(fixed, get, method, values) {
  let names = null;
  let asker = 0; // the execution that asked
  function looked(entry) {
    if (names === null || asker !== execution) names = askNow(method, values, entry);
    asker = execution;
    return names;
  }
  function isListed(property, entry) {
    if (typeof property !== "string") return false;
    const listed = looked(entry);
    for (let i = 0; i < listed.length; i++) if (listed[i] === property) return true;
    return false;
  }
  function toJSON() {
    const listed = looked(toJSON);
    const copy = [];
    for (let i = 0; i < listed.length; i++) copy[i] = listed[i];
    return copy;
  }
  freeze(toJSON);
  // JavaScript itself reads some names in order to await an object or convert it to a string. Tools with such names are declared
  // as `call("then", ...)` (engines/servers/typescript.py).
  function found(property) {
    if (typeof property !== "string" || property === "then") return undefined;
    return property === "toJSON" ? toJSON : (fixed[property] ?? get(property));
  }
  return new NativeProxy(fixed, {
    __proto__: null,
    get(target, property) {
      return found(property);
    },
    has(target, property) {
      return fixed[property] !== undefined || isListed(property, this.has);
    },
    ownKeys() {
      return looked(this.ownKeys);
    },
    getOwnPropertyDescriptor(target, property) {
      if (!isListed(property, this.getOwnPropertyDescriptor)) return undefined;
      return { __proto__: null, value: found(property), writable: false, enumerable: true, configurable: true };
    },
    set: refuse,
    defineProperty: refuse,
    deleteProperty: refuse,
    preventExtensions: refuse,
    setPrototypeOf: refuse,
  });
}

// A second object, such as options, would be lost. `map` passes an index and an array, which are accepted.
function refuseSecond(server, tool, second) {
  if (rawResults || typeof second !== "object" || second === null || isArray(second)) return;
  throw new NativeTypeError("servers." + server + "." + tool + " was not called: it takes one object, and a second one would be lost: put everything into one object");
}

function serverProxy(name) {
  const call = freeze((tool, values) => serverCall(name, tool, values, rawResults));
  const callRaw = freeze((tool, values) => serverCall(name, tool, values, true));
  const own = (value) => ({ value, writable: false, enumerable: false, configurable: true });
  const toolNamed = (property) => (values, second) => {
    refuseSecond(name, property, second);
    return call(property, values);
  };
  const tool = (property) => (property === "toString" || property === "valueOf" ? undefined : freeze(toolNamed(property)));
  // A tool may be named `resources`: the member is that tool, and it has the methods. Neither hides the other.
  const group = (capability, methods) => {
    const member = toolNamed(capability);
    const names = keys(methods);
    for (let i = 0; i < names.length; i++) {
      const params = methods[names[i]];
      const method = (first, second) => serverCall(name, capability + "/" + names[i], params(first, second), false, true);
      defineProperty(member, names[i], own(freeze(method)));
    }
    return own(freeze(member));
  };
  const nothing = () => ({});
  const resources = { __proto__: null, list: nothing, read: (link) => ({ uri: typeof link === "object" && link !== null ? link.uri : link }) };
  const prompts = { __proto__: null, list: nothing, get: (prompt, given) => ({ name: prompt, arguments: given ?? {} }) };
  const fixed = create(null, {
    call: own(call),
    callRaw: own(callRaw),
    resources: group("resources", resources),
    prompts: group("prompts", prompts),
  });
  return catalogue(fixed, tool, "servers.tools", [name]);
}
const known = new Table();
function serverNamed(name) {
  let server = apply(mapGet, known, [name]);
  if (server === undefined) {
    server = serverProxy(name);
    apply(mapSet, known, [name, server]);
  }
  return server;
}
const servers = catalogue(create(null), serverNamed, "servers.list", []);
