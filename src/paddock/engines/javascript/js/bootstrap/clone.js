// structuredClone (HTML, "Safe passing of structured data"). A transferred buffer is copied, then detached.
const uncloned = (text) => domError(cut(text, NAME) + " could not be cloned.", "DataCloneError");
const place = (holder, key, value) => defineProperty(holder, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });

function structuredClone(value, options = undefined) {
  if (arguments.length === 0) throw new NativeTypeError("structuredClone needs a value");
  const given = options?.transfer;
  const moved = new Unique();
  if (given !== undefined) {
    for (const each of given) {
      const isBuffer = typeof each === "object" && each !== null && kindOf(each) === "ArrayBuffer";
      if (!isBuffer) throw domError("Only an ArrayBuffer can be transferred", "DataCloneError");
      apply(setAdd, moved, [each]);
    }
  }
  const copy = cloned(value, new Table());
  apply(setForEach, moved, [(buffer) => void apply(transferBuffer, buffer, [])]);
  return copy;
}

function cloned(value, memory) {
  if (typeof value === "function") throw uncloned(apply(functionText, value, []));
  if (typeof value === "symbol") throw uncloned(apply(symbolText, value, []));
  if (typeof value !== "object" || value === null) return value;
  const known = apply(mapGet, memory, [value]);
  if (known !== undefined) return known;
  const kind = kindOf(value);
  const remember = (copy) => {
    apply(mapSet, memory, [value, copy]);
    return copy;
  };
  switch (kind) {
    case "Map": return cloneEntries(value, remember(new Table()), memory);
    case "Set": return cloneEntries(value, remember(new Unique()), memory);
    case "Date": return remember(new NativeDate(apply(valueOfKind.Date, value, [])));
    case "RegExp": return remember(new NativeRegExp(value));
    case "Number": case "String": case "Boolean": case "BigInt": return remember(Constructors.Object(apply(valueOfKind[kind], value, [])));
    case "Error": return cloneError(value, remember, memory);
    case "Symbol": case "WeakMap": case "WeakSet": case "WeakRef": case "Promise": throw uncloned("#<" + kind + ">");
    case "ArrayBuffer": return remember(apply(copyBuffer, value, [0]));
    case "Array": {
      const copy = remember([]);
      copy.length = value.length;
      return cloneMembers(value, copy, memory);
    }
    case "": {
      const tag = apply(objectText, value, []);
      if (tag === "[object Generator]" || tag === "[object AsyncGenerator]") throw uncloned("#<" + apply(slice, tag, [8, -1]) + ">");
      return cloneMembers(value, remember({}), memory);
    }
  }
  const isData = kind === "DataView";
  const buffer = cloned(apply(isData ? viewBuffer : typedBuffer, value, []), memory);
  const at = apply(isData ? viewOffset : typedOffset, value, []);
  return remember(new Constructors[kind](buffer, at, apply(isData ? viewBytes : typedLength, value, [])));
}
const copyBuffer = ArrayBuffer.prototype.slice;

function cloneMembers(value, copy, memory) {
  const names = keys(value);
  for (let i = 0; i < names.length; i++) {
    if (getOwnPropertyDescriptor(value, names[i]) !== undefined) place(copy, names[i], cloned(value[names[i]], memory));
  }
  return copy;
}
// A copy of the entries, because cloning them may change the collection.
function cloneEntries(value, copy, memory) {
  const entries = [];
  const isMap = copy instanceof Table;
  apply(isMap ? mapForEach : setForEach, value, [(member, key) => {
    entries[entries.length] = key;
    entries[entries.length] = member;
  }]);
  for (let i = 0; i < entries.length; i += 2) {
    const key = cloned(entries[i], memory);
    if (isMap) apply(mapSet, copy, [key, cloned(entries[i + 1], memory)]);
    else apply(setAdd, copy, [key]);
  }
  return copy;
}
function cloneError(value, remember, memory) {
  const name = StringOf(value.name);
  const made = Errors[name] ?? NativeError;
  const copy = remember(new made());
  const message = getOwnPropertyDescriptor(value, "message");
  const hide = (key, member) => defineProperty(copy, key, { __proto__: null, value: member, writable: true, enumerable: false, configurable: true });
  if (message !== undefined && "value" in message) hide("message", StringOf(message.value));
  if (typeof value.stack === "string") hide("stack", value.stack);
  const cause = getOwnPropertyDescriptor(value, "cause");
  if (cause !== undefined && "value" in cause) hide("cause", cloned(cause.value, memory));
  return copy;
}
