// `servers`: a member for each server, and in it one for each of its tools. Any name may be called without being looked up;
// which names there are is asked of the host when a program looks (`Object.keys`, `in`, JSON), and known from then on.
const refuse = () => false;
function catalogue(fixed, get, method, values) {
  let names = null;
  const looked = (entry) => names ?? (names = askNow(method, values, entry));
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
  // What JavaScript itself looks up on an object to await it or to write it as text is no name: tools that are called so are
  // declared as `call("then", ...)` (hub/typescript.py).
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

// A second object, such as options, would be lost; what `map` hands over besides is none.
function refuseSecond(server, tool, second) {
  if (rawResults || typeof second !== "object" || second === null || isArray(second)) return;
  throw new NativeTypeError("servers." + server + "." + tool + " was not called: it takes one object, and a second one would be lost: put all of it into one");
}

function serverProxy(name) {
  const call = freeze((tool, values) => serverCall(name, tool, values, rawResults));
  const callRaw = freeze((tool, values) => serverCall(name, tool, values, true));
  const own = (value) => ({ value, writable: false, enumerable: false, configurable: true });
  const fixed = create(null, { call: own(call), callRaw: own(callRaw) });
  const tool = (property) => (property === "toString" || property === "valueOf" ? undefined : freeze((values, second) => {
    refuseSecond(name, property, second);
    return call(property, values);
  }));
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
