// The glue between the guest's program and its worker. It runs once, before any guest code, in the context that the
// program gets; `exchange` is the buffer both sides see and `post` calls the worker in the middle of a task.
//
// Guest code shares this realm, so nothing here may trust a method that the guest can replace: everything used later is
// captured first, and called through `apply`. Arrays are filled by index, never by `push`.
//
// Evaluates to the one function that the worker queues from then on; its first call hands over `post` and answers with
// the buffer.
"use strict";
(function () {
  const global = globalThis;
  const { apply, ownKeys, defineProperty, getPrototypeOf, setPrototypeOf } = Reflect;
  const { freeze, seal, create, keys } = Object;
  const { stringify, parse } = JSON;
  const { fromCharCode } = String;
  const { isArray } = Array;
  const { min } = Math;
  const StringOf = String;
  const NumberOf = Number;
  const NativePromise = Promise;
  const NativeError = Error;
  const NativeTypeError = TypeError;
  const NativeRangeError = RangeError;
  const NativeProxy = Proxy;
  const then = Promise.prototype.then;
  const charCodeAt = String.prototype.charCodeAt;
  const slice = String.prototype.slice;
  const indexOf = String.prototype.indexOf;
  const exec = RegExp.prototype.exec;
  const join = Array.prototype.join;
  const now = Date.now;
  const mapGet = Map.prototype.get;
  const mapSet = Map.prototype.set;
  const mapDelete = Map.prototype.delete;
  const captureStackTrace = Error.captureStackTrace;
  const Table = Map;

  // ---- what both sides see: eight numbers, then text out, then text in --------------------------------------------
  const CAPACITY = 32768;
  const buffer = new ArrayBuffer(64 + 4 * CAPACITY);
  const header = new Float64Array(buffer, 0, 8);
  const outward = new Uint16Array(buffer, 64, CAPACITY);
  const IN_OFFSET = 64 + 2 * CAPACITY;
  const Units = Uint16Array;
  const PIECE = 8192;
  const [OPERATION, OUT_LENGTH, OUT_MORE, QUEUED, SETTLED, OPEN_CALLS, NEXT_DUE, IN_LENGTH] = [0, 1, 2, 3, 4, 5, 6, 7];
  const [SEND, FILL] = [1, 2]; // in OPERATION, when the glue posts
  const [IDLE, TIMER, TAKE] = [-1, -2, -3]; // in IN_LENGTH, when the worker asks for something else than a message
  header[NEXT_DUE] = Infinity;
  let post = null;

  // No method of a typed array is ever used on the buffer: `length` can be replaced, `subarray` asks the guest for a
  // constructor and hands the buffer to it, and who has the buffer can free the memory that the worker reads.
  function isolated(view, length) {
    defineProperty(view, "length", { value: length });
    setPrototypeOf(view, null);
    return view;
  }
  for (const view of [header, outward]) isolated(view, view.length);

  // Hand a text to the worker at once, in the middle of whatever runs.
  function send(text) {
    const length = text.length;
    let start = 0;
    do {
      const count = min(length - start, CAPACITY);
      for (let i = 0; i < count; i++) outward[i] = apply(charCodeAt, text, [start + i]);
      start += count;
      header[OUT_LENGTH] = count;
      header[OUT_MORE] = start < length ? 1 : 0;
      header[OPERATION] = SEND;
      post();
    } while (start < length);
  }

  // Hand a text to the worker when the running task is over: much faster for large ones.
  const queue = [];
  let taken = 0;
  function sendLater(text) {
    queue[queue.length] = text;
    header[QUEUED]++;
  }
  function take() {
    const text = queue[taken];
    queue[taken++] = "";
    header[QUEUED]--;
    return text;
  }
  const LATER = 16384;
  function deliver(text) {
    if (text.length > LATER) sendLater(text);
    else send(text);
  }

  function receive() {
    let text = "";
    for (;;) {
      const length = header[IN_LENGTH];
      for (let k = 0; k < length; k += PIECE) {
        const count = min(PIECE, length - k);
        text += apply(fromCharCode, null, isolated(new Units(buffer, IN_OFFSET + 2 * k, count), count));
      }
      if (length < CAPACITY) return text;
      header[OPERATION] = FILL;
      post();
    }
  }

  // ---- errors -------------------------------------------------------------------------------------------------------
  function textOf(value) {
    try {
      return typeof value === "symbol" ? apply(symbolText, value, []) : StringOf(value);
    } catch {
      return "[value without a text form]";
    }
  }
  const symbolText = Symbol.prototype.toString;
  const [NAME, TEXT] = [256, 65536];
  const cut = (text, length) => (text.length > length ? apply(slice, text, [0, length]) + "..." : text);

  // What is reported of a thrown value. Reading it may run guest code (getters, proxies): it can only fool its author.
  function describe(thrown) {
    const report = { name: "Error", message: "", thrown: cut(textOf(thrown), TEXT), stack: "", error: false };
    try {
      if (thrown instanceof NativeError) {
        report.error = true;
        report.name = cut(textOf(thrown.name), NAME);
        report.message = cut(textOf(thrown.message), TEXT);
        const stack = thrown.stack;
        if (typeof stack === "string") report.stack = apply(slice, stack, [0, 8192]);
      } else {
        report.name = "Thrown";
        report.message = report.thrown;
      }
    } catch {
      report.message = report.thrown;
    }
    return report;
  }

  // ---- console ------------------------------------------------------------------------------------------------------
  let outputLeft = 0;
  let linesLeft = 0;
  let outputCut = false;
  const NOT_ASCII = /[^\0-\x7f]/;
  function utf8Length(text) {
    let bytes = text.length;
    if (apply(exec, NOT_ASCII, [text]) === null) return bytes;
    for (let i = 0; i < text.length; i++) {
      const unit = apply(charCodeAt, text, [i]);
      if (unit > 0x7f) bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1;
    }
    return bytes;
  }
  // Whether a JSON text goes into one message, with room for what is written around it.
  let frameLimit = 0;
  const ENVELOPE = 65536;
  function fits(json) {
    const room = frameLimit - ENVELOPE;
    return json.length <= room && (3 * json.length <= room || utf8Length(json) <= room);
  }
  function print(level, values) {
    if (outputCut) return;
    const texts = [];
    for (let i = 0; i < values.length; i++) {
      texts[i] = typeof values[i] === "symbol" ? apply(symbolText, values[i], []) : StringOf(values[i]);
    }
    const text = apply(join, texts, [" "]);
    const bytes = text.length > outputLeft ? text.length : utf8Length(text);
    const form = bytes > outputLeft || linesLeft === 0 ? "" : stringify(text);
    if (form === "" || !fits(form)) {
      outputCut = true;
      send('["cut"]');
      return;
    }
    outputLeft -= bytes;
    linesLeft--;
    send('["console","' + level + '",' + form + "]");
  }
  const console = create(null);
  for (const level of ["log", "warn", "error", "info", "debug"]) {
    console[level] = { [level](...values) { print(level, values); } }[level];
    freeze(console[level]);
  }
  freeze(console);

  // ---- timers: a binary heap, the next one first; a cleared one stays until it comes to the top --------------------------
  const timers = [];
  const waiting = new Table();
  let timerCount = 0;
  const before = (one, other) => one.due < other.due || (one.due === other.due && one.id < other.id);
  function setTimeout(callback, delay, ...values) {
    if (typeof callback !== "function") throw new NativeTypeError("setTimeout needs a function, not " + typeof callback);
    const wait = NumberOf(delay);
    const timer = { id: ++timerCount, due: now() + (wait > 0 ? wait : 0), callback, values };
    let at = timers.length;
    for (let up; at > 0 && before(timer, timers[(up = (at - 1) >>> 1)]); at = up) timers[at] = timers[up];
    timers[at] = timer;
    apply(mapSet, waiting, [timer.id, timer]);
    header[NEXT_DUE] = timers[0].due;
    return timer.id;
  }
  function clearTimeout(id) {
    apply(mapDelete, waiting, [id]);
    while (timers.length > 0 && apply(mapGet, waiting, [timers[0].id]) === undefined) removeFirst();
    header[NEXT_DUE] = timers.length > 0 ? timers[0].due : Infinity;
  }
  function removeFirst() {
    const last = timers[timers.length - 1];
    timers.length--;
    if (timers.length === 0) return;
    let at = 0;
    for (let child = 1; child < timers.length; at = child, child = 2 * at + 1) {
      if (child + 1 < timers.length && before(timers[child + 1], timers[child])) child++;
      if (before(last, timers[child])) break;
      timers[at] = timers[child];
    }
    timers[at] = last;
  }
  function fire() {
    const timer = timers[0];
    if (timer === undefined || timer.due > now()) return;
    clearTimeout(timer.id);
    try {
      apply(timer.callback, undefined, timer.values);
    } catch (thrown) {
      settle("failed", describe(thrown));
    }
  }
  let sleepCap = 0;
  function sleep(ms) {
    return new NativePromise((resolve) => {
      const wait = NumberOf(ms);
      setTimeout(resolve, wait > 0 ? min(wait, sleepCap) : 0);
    });
  }

  // ---- host calls -------------------------------------------------------------------------------------------------------
  class ToolError extends NativeError {}
  defineProperty(ToolError.prototype, "name", { value: "ToolError", writable: true, configurable: true });
  freeze(ToolError);
  let callCount = 0;
  let callLimit = 0;
  let rawResults = false;
  const calls = new Table();

  // A promise that knows whether anybody waits for it: a failed call that nobody looks at must not pass for success.
  function watched(executor, call) {
    const promise = new NativePromise(executor);
    const own = (value) => ({ value, writable: true, configurable: true });
    defineProperty(promise, "then", own((onFulfilled, onRejected) => {
      call.seen = true;
      return apply(then, promise, [onFulfilled, onRejected]);
    }));
    // Makes `await` look at `then` instead of reading the promise's state directly (ECMA-262, PromiseResolve).
    defineProperty(promise, "constructor", own(undefined));
    return promise;
  }

  function hostCall(kind, server, tool, values, raw) {
    if (typeof tool !== "string") throw new NativeTypeError("servers." + server + ".call(tool, args): tool must be a string");
    const given = values === undefined || values === null ? {} : values;
    if (typeof given !== "object" || isArray(given)) {
      throw new NativeTypeError("servers." + server + ": the arguments of " + tool + " must be one object");
    }
    if (server.length > NAME || tool.length > NAME) throw new NativeTypeError("the name of a server or tool is longer than " + NAME + " characters");
    const body = stringify(given);
    if (body === undefined) throw new NativeTypeError("servers." + server + ": the arguments of " + tool + " have no JSON form");
    if (apply(charCodeAt, body, [0]) !== 123) {
      throw new NativeTypeError("servers." + server + ": the arguments of " + tool + " must be one object, also as JSON");
    }
    if (!fits(body)) throw new NativeRangeError("servers." + server + ": the arguments of " + tool + " are larger than " + frameLimit + " bytes");
    const id = ++callCount;
    const call = { id, server, tool, raw, seen: false, resolve: null, reject: null, site: { stack: "" } };
    const promise = watched((resolve, reject) => {
      call.resolve = resolve;
      call.reject = reject;
    }, call);
    captureStackTrace(call.site, hostCall);
    apply(mapSet, calls, [id, call]);
    header[OPEN_CALLS]++;
    if (id > callLimit) {
      answer(id, false, { name: "LimitError", message: "Host call limit reached (" + callLimit + " calls in one execution)" });
      return promise;
    }
    try {
      deliver("[" + stringify(kind) + "," + id + "," + stringify(server) + "," + stringify(tool) + "," + body + "," + (raw ? "true" : "false") + "]");
    } catch (thrown) {
      apply(mapDelete, calls, [id]);
      header[OPEN_CALLS]--;
      throw thrown;
    }
    return promise;
  }

  const unseen = [];
  function answer(id, ok, value) {
    const call = apply(mapGet, calls, [id]);
    if (call === undefined) return;
    apply(mapDelete, calls, [id]);
    header[OPEN_CALLS]--;
    if (ok) return call.resolve(value);
    const error = value.name === "ToolError" ? new ToolError(value.message) : new NativeError(value.message);
    const site = call.site.stack;
    const own = (v) => ({ value: v, writable: true, configurable: true });
    defineProperty(error, "stack", own(value.name + ": " + value.message + apply(slice, site, [min(site.length, firstFrame(site))])));
    const fields = keys(value);
    for (let i = 0; i < fields.length; i++) {
      const key = fields[i];
      if (key !== "message") defineProperty(error, key, { value: value[key], writable: true, configurable: true, enumerable: key !== "name" });
    }
    call.error = error;
    unseen[unseen.length] = call;
    call.reject(error);
  }
  function firstFrame(stack) {
    const at = apply(indexOf, stack, ["\n    at "]);
    return at < 0 ? stack.length : at;
  }

  function serverProxy(name) {
    const call = freeze((tool, values) => hostCall("call", name, tool, values, rawResults));
    const callRaw = freeze((tool, values) => hostCall("call", name, tool, values, true));
    return new NativeProxy(freeze({ __proto__: null, call, callRaw }), {
      __proto__: null,
      get(target, property) {
        // What JavaScript itself looks up on an object to await it or to write it as text is no tool.
        if (typeof property !== "string" || property === "then" || property === "toJSON") return undefined;
        if (property === "toString" || property === "valueOf") return undefined;
        if (property === "call") return call;
        if (property === "callRaw") return callRaw;
        return freeze((values) => call(property, values));
      },
    });
  }
  const known = new Table();
  const servers = new NativeProxy(freeze(create(null)), {
    __proto__: null,
    get(target, property) {
      if (typeof property !== "string" || property === "then") return undefined;
      let server = apply(mapGet, known, [property]);
      if (server === undefined) {
        server = serverProxy(property);
        apply(mapSet, known, [property, server]);
      }
      return server;
    },
  });

  // ---- the program --------------------------------------------------------------------------------------------------------
  let settings = null;
  function settle(kind, body) {
    if (header[SETTLED] !== 0) return;
    header[SETTLED] = 1;
    deliver('["' + kind + '",' + (typeof body === "string" ? body : stringify(body)) + "]");
  }
  const OPEN_SHOWN = 16;
  function finish(value) {
    let text;
    try {
      text = stringify(value);
    } catch (thrown) {
      return settle("failed", describe(thrown));
    }
    const open = [];
    for (let id = 1; id <= callCount && open.length < OPEN_SHOWN; id++) {
      const call = apply(mapGet, calls, [id]);
      if (call !== undefined) open[open.length] = call.server + "." + call.tool;
    }
    for (let i = 0; i < unseen.length; i++) {
      if (!unseen[i].seen) return settle("failed", describe(unseen[i].error));
    }
    const loose = '{"open":' + stringify(open) + ',"value":';
    if (text === undefined) return settle("done", '{"open":' + stringify(open) + "}");
    let room = settings.result;
    if (text.length > room || !fits(text)) {
      const whole = typeof value === "string" ? value : text;
      do {
        text = stringify(apply(slice, whole, [0, room]) + "... [result truncated]");
        room >>>= 1;
      } while (room > 0 && !fits(text));
    }
    settle("done", loose + text + "}");
  }
  const fail = (thrown) => settle("failed", describe(thrown));

  function start(program) {
    delete global.__paddock;
    let running;
    try {
      running = program(settings.input);
    } catch (thrown) {
      return fail(thrown);
    }
    defineProperty(running, "constructor", { value: undefined }); // `then` would ask it for a promise of the guest's make
    apply(then, running, [finish, fail]);
  }

  function provide(name, value) {
    defineProperty(global, name, { value, writable: true, configurable: true, enumerable: false });
  }

  function configure(given) {
    settings = given;
    outputLeft = given.output;
    linesLeft = given.lines;
    frameLimit = given.frame;
    callLimit = given.calls;
    sleepCap = given.sleep;
    rawResults = given.raw;
    const sdk = { __proto__: null, vars: freeze({ __proto__: null, ...given.vars }), workspace: freeze({ __proto__: null, path: given.workspace }) };
    if (given.input !== undefined) {
      sdk.input = given.input;
      provide("input", given.input);
    }
    freeze(sdk);
    provide("paddock", sdk);
    provide("mentu", sdk);
    provide("__paddock", start);
  }

  // Walks the ways that every program takes, so that a waiting worker has compiled them and owns the memory they touch.
  function rehearse(given) {
    configure(given);
    delete global.paddock;
    delete global.mentu;
    delete global.__paddock;
    print("log", ["x"]);
    send(stringify(["rehearse", describe(new NativeError("x")), utf8Length("x")]));
    apply(then, (async () => given)(), [() => {}, () => {}]);
    outputLeft = 0;
  }

  // One task of the worker: a timer that is due, or a message that has come in.
  function turn(poster) {
    if (post === null) {
      post = poster;
      return buffer;
    }
    switch (header[IN_LENGTH]) {
      case IDLE: return undefined;
      case TIMER: return fire();
      case TAKE: return take();
    }
    const message = parse(receive());
    if (message[0] === "reply") return answer(message[1], message[2], message[3]);
    if (message[0] === "stuck") return settle("stuck", "{}");
    if (message[0] === "rehearse") return rehearse(message[1]);
    configure(message[1]);
  }

  // ---- the world the program sees: what is not named here is deleted, also what a newer engine brings -----------------------
  const ALLOWED = [
    "Object", "Function", "Array", "Number", "Boolean", "String", "Symbol", "BigInt", "Date", "Promise", "RegExp", "Math", "JSON", "Reflect", "Proxy",
    "Error", "AggregateError", "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError", "Map", "Set", "WeakMap", "WeakSet",
    "ArrayBuffer", "DataView", "Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
    "BigInt64Array", "BigUint64Array", "Float32Array", "Float64Array", "Iterator", "Intl", "parseInt", "parseFloat", "isNaN", "isFinite",
    "encodeURIComponent", "decodeURIComponent", "encodeURI", "decodeURI", "undefined", "NaN", "Infinity", "eval",
  ];
  function harden() {
    const allowed = new Set(ALLOWED);
    for (const name of ownKeys(global)) {
      if (!allowed.has(name)) delete global[name];
    }
    defineProperty(Error, "prepareStackTrace", { get: freeze(() => undefined), set: freeze(() => {}), configurable: false, enumerable: false });
    seal(Object.prototype);
    seal(Array.prototype);
    openForOwn(Function.prototype);
    for (const made of [function () {}, async function () {}, function* () {}, async function* () {}]) freeze(getPrototypeOf(made));
  }

  // Freezing a prototype makes `object.property = value` throw for every heir (the "override mistake"). An accessor in the
  // place of each writable method gives heirs a property of their own and the prototype none.
  function openForOwn(prototype) {
    for (const name of ownKeys(prototype)) {
      const { value, writable } = Object.getOwnPropertyDescriptor(prototype, name);
      if (!writable) continue;
      const accessors = {
        get() { return value; },
        set(own) {
          if (this === prototype) throw new NativeTypeError("Cannot assign to read only property '" + textOf(name) + "' of a frozen prototype");
          defineProperty(this, name, { value: own, writable: true, configurable: true, enumerable: true });
        },
      };
      defineProperty(prototype, name, { get: freeze(accessors.get), set: freeze(accessors.set), configurable: false, enumerable: false });
    }
  }

  harden();
  for (const service of [setTimeout, clearTimeout, sleep]) provide(service.name, freeze(service));
  provide("servers", servers);
  provide("console", console);
  return turn;
})();
//# sourceURL=paddock:prelude
