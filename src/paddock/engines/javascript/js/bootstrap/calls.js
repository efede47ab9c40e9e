// Host calls: their messages, promises and errors.
class ToolError extends NativeError {}
defineProperty(ToolError.prototype, "name", { value: "ToolError", writable: true, configurable: true });
freeze(ToolError);
let callCount = 0;
let callLimit = 0;
let rawResults = false;
const calls = new Table();

// A promise that records whether the program waits for it: an ignored failed call must not count as success.
function watched(executor, call) {
  const promise = new NativePromise(executor);
  const own = (value) => ({ value, writable: true, configurable: true });
  defineProperty(promise, "then", own((onFulfilled, onRejected) => {
    call.seen = true;
    return apply(then, promise, [onFulfilled, onRejected]);
  }));
  // Makes `await` call `then` instead of reading the promise's state directly (ECMA-262, PromiseResolve).
  defineProperty(promise, "constructor", own(undefined));
  return promise;
}

// Sends a call with the message `write(id)` and returns the promise of its reply. An error's stack shows the call of `entry`.
function hostCall(server, tool, write, entry) {
  refuseLate();
  const id = ++callCount;
  const call = { server, tool, seen: false, resolve: null, reject: null, site: { stack: "" } };
  const promise = watched((resolve, reject) => {
    call.resolve = resolve;
    call.reject = reject;
  }, call);
  captureStackTrace(call.site, entry);
  apply(mapSet, calls, [id, call]);
  header[OPEN_CALLS]++;
  if (id > callLimit) {
    answer(id, false, tooMany());
    return promise;
  }
  try {
    deliver(write(id));
  } catch (thrown) {
    apply(mapDelete, calls, [id]);
    header[OPEN_CALLS]--;
    throw thrown;
  }
  return promise;
}
// Code that runs after the end of its program cannot call: in a session, no execution would answer for it.
function refuseLate() {
  if (header[SETTLED] !== 0) throw new NativeError("The execution that this code belongs to has ended; the call was not made");
}
const tooMany = () => ({ name: "LimitError", message: "Host call limit reached (" + callLimit + " calls in one execution)" });

// With `method`, `tool` is a method of the protocol that reads resources or prompts.
function serverCall(server, tool, values, raw, method) {
  if (typeof tool !== "string") throw new NativeTypeError("servers." + server + ".call(tool, args): tool must be a string");
  const given = values === undefined || values === null ? {} : values;
  if (typeof given !== "object" || isArray(given)) {
    throw new NativeTypeError("servers." + server + ": the arguments of " + tool + " must be one object");
  }
  if (server.length > NAME || tool.length > NAME) throw new NativeTypeError("the name of a server or tool is longer than " + NAME + " characters");
  const body = written("servers." + server + "." + tool, given);
  if (body === undefined) throw new NativeTypeError("servers." + server + ": the arguments of " + tool + " have no JSON form");
  if (apply(charCodeAt, body, [0]) !== 123) {
    throw new NativeTypeError("servers." + server + ": the arguments of " + tool + " must be one object, also as JSON");
  }
  if (!fits(body)) throw new NativeRangeError("servers." + server + ": the arguments of " + tool + " are larger than " + frameLimit + " bytes");
  const bytes = encoded.length > 0 ? "," + stringify(encoded) : "";
  const rest = "," + stringify(server) + "," + stringify(tool) + "," + body + "," + (raw ? "true" : "false") + bytes + "]";
  return hostCall(server, tool, (id) => head(method ? "method" : "call") + id + rest, serverCall);
}

const unseen = [];
function answer(id, ok, value) {
  const call = apply(mapGet, calls, [id]);
  if (call === undefined) return;
  apply(mapDelete, calls, [id]);
  header[OPEN_CALLS]--;
  if (ok) return call.resolve(value);
  call.error = hostError(value, call.site);
  unseen[unseen.length] = call;
  call.reject(call.error);
}

// Makes the error that the host describes, with the stack of the call.
function hostError(value, site) {
  const error = value.name === "ToolError" ? new ToolError(value.message) : new NativeError(value.message);
  const head = value.name + ": " + value.message;
  const own = (v) => ({ value: v, writable: true, configurable: true });
  const seen = typeof site.stack === "string" ? site.stack : ""; // a program can switch stacks off
  defineProperty(error, "stack", own(head + behindHead(seen)));
  const raw = seen === "" ? "" : rawStack(site);
  if (raw !== seen) apply(placeSet, stacks, [error, { seen: error.stack, raw: head + behindHead(raw) }]);
  const fields = keys(value);
  for (let i = 0; i < fields.length; i++) {
    const key = fields[i];
    if (key !== "message") defineProperty(error, key, { value: value[key], writable: true, configurable: true, enumerable: key !== "name" });
  }
  return error;
}
function behindHead(stack) {
  const at = apply(indexOf, stack, ["\n    at "]);
  return at < 0 ? "" : apply(slice, stack, [at]);
}

// A program that uses Promise.race, or continues after a failed `Promise.all`, leaves calls open on purpose. Calls up to this
// number were open when the last of these promises settled; a `Promise.all` that succeeds leaves none open.
let raced = 0;
function racing(name) {
  const native = NativePromise[name];
  const method = {
    [name](promises) {
      const first = apply(native, this, [promises]);
      if (this !== NativePromise) return first;
      defineProperty(first, "constructor", { value: undefined }); // as in `start`
      return new NativePromise((resolve, reject) => {
        const end = (settled) => (value) => {
          raced = callCount;
          settled(value);
        };
        apply(then, first, [name === "all" ? resolve : end(resolve), end(reject)]);
      });
    },
  }[name];
  return freeze(method);
}
