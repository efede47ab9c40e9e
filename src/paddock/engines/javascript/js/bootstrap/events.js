// DOMException, events and AbortSignal: the parts of the DOM that are pure computation.
const CODES = {
  __proto__: null, IndexSizeError: 1, HierarchyRequestError: 3, WrongDocumentError: 4, InvalidCharacterError: 5, NoModificationAllowedError: 7,
  NotFoundError: 8, NotSupportedError: 9, InUseAttributeError: 10, InvalidStateError: 11, SyntaxError: 12, InvalidModificationError: 13,
  NamespaceError: 14, InvalidAccessError: 15, TypeMismatchError: 17, SecurityError: 18, NetworkError: 19, AbortError: 20, URLMismatchError: 21,
  QuotaExceededError: 22, TimeoutError: 23, InvalidNodeTypeError: 24, DataCloneError: 25,
};
class DOMException extends NativeError {
  #name;
  constructor(message = "", options = undefined) {
    const isObject = typeof options === "object" && options !== null;
    super(StringOf(message), isObject ? options : undefined);
    const name = isObject ? options.name : options;
    this.#name = name === undefined ? "Error" : StringOf(name);
  }
  get name() { return this.#name; }
  get code() { return CODES[this.#name] ?? 0; }
}
freeze(DOMException); // the bootstrap throws instances of it, and a program could change its superclass
const tagged = (made, name) => defineProperty(made.prototype, Symbol.toStringTag, { value: name, configurable: true });
tagged(DOMException, "DOMException");
const domError = (message, name) => new DOMException(message, name);

class Event {
  #type;
  #bubbles;
  #cancelable;
  #composed;
  #prevented = false;
  #stopped = false;
  #target = null;
  #phase = 0;
  #time = now();
  constructor(type, options = undefined) {
    if (arguments.length === 0) throw new NativeTypeError("Event needs a type");
    this.#type = StringOf(type);
    this.#bubbles = options?.bubbles ? true : false;
    this.#cancelable = options?.cancelable ? true : false;
    this.#composed = options?.composed ? true : false;
  }
  get type() { return this.#type; }
  get target() { return this.#target; }
  get srcElement() { return this.#target; }
  get currentTarget() { return this.#phase === 2 ? this.#target : null; }
  get eventPhase() { return this.#phase; }
  get bubbles() { return this.#bubbles; }
  get cancelable() { return this.#cancelable; }
  get composed() { return this.#composed; }
  get defaultPrevented() { return this.#prevented; }
  get returnValue() { return !this.#prevented; }
  get isTrusted() { return false; }
  get timeStamp() { return this.#time; }
  get cancelBubble() { return this.#stopped; }
  set cancelBubble(stops) { if (stops) this.#stopped = true; }
  preventDefault() { if (this.#cancelable) this.#prevented = true; }
  stopPropagation() { this.#stopped = true; }
  stopImmediatePropagation() { this.#halted = true; this.#stopped = true; }
  composedPath() { return this.#phase === 2 ? [this.#target] : []; }
  #halted = false;
  static begin(event, target) {
    if (event.#phase !== 0) throw domError("The event is already being dispatched", "InvalidStateError");
    event.#target = target;
    event.#phase = 2;
    event.#halted = event.#stopped;
  }
  static isHalted(event) { return event.#halted; }
  static end(event) {
    event.#phase = 0;
    event.#halted = event.#stopped = false;
    return !event.#prevented;
  }
}
const { begin: beginEvent, isHalted, end: endEvent } = Event;
for (const name of ["begin", "isHalted", "end"]) delete Event[name];
for (const [index, name] of ["NONE", "CAPTURING_PHASE", "AT_TARGET", "BUBBLING_PHASE"].entries()) {
  for (const holder of [Event, Event.prototype]) defineProperty(holder, name, { value: index, enumerable: true });
}
tagged(Event, "Event");

class CustomEvent extends Event {
  #detail;
  constructor(type, options = undefined) {
    super(type, options);
    this.#detail = options?.detail ?? null;
  }
  get detail() { return this.#detail; }
}
tagged(CustomEvent, "CustomEvent");

// An exception in a listener ends the program, as in a timer.
class EventTarget {
  #listeners = [];
  addEventListener(type, callback, options = undefined) {
    const listeners = this.#listeners;
    const isObject = typeof options === "object" && options !== null;
    const capture = (isObject ? options.capture : options) ? true : false;
    const signal = isObject ? options.signal : undefined;
    if (callback === null || callback === undefined || (signal !== undefined && isAborted(signal))) return;
    if (typeof callback !== "function" && typeof callback !== "object") throw new NativeTypeError("A listener is a function or an object");
    type = StringOf(type);
    for (let i = 0; i < listeners.length; i++) {
      if (listeners[i].type === type && listeners[i].callback === callback && listeners[i].capture === capture) return;
    }
    const listener = { __proto__: null, type, callback, capture, once: isObject && options.once ? true : false, isGone: false };
    listeners[listeners.length] = listener;
    if (signal !== undefined) onAbort(signal, () => dropListener(this, listener));
  }
  removeEventListener(type, callback, options = undefined) {
    const capture = (typeof options === "object" && options !== null ? options.capture : options) ? true : false;
    const listeners = this.#listeners;
    type = StringOf(type);
    for (let i = 0; i < listeners.length; i++) {
      const each = listeners[i];
      if (each.type === type && each.callback === callback && each.capture === capture) return dropListener(this, each);
    }
  }
  dispatchEvent(event) {
    const all = this.#listeners;
    beginEvent(event, this);
    const type = apply(eventType, event, []);
    const listeners = [];
    for (let i = 0; i < all.length; i++) if (all[i].type === type) listeners[listeners.length] = all[i];
    for (let i = 0; i < listeners.length && !isHalted(event); i++) {
      const listener = listeners[i];
      if (listener.isGone) continue;
      if (listener.once) dropListener(this, listener);
      try {
        const { callback } = listener;
        if (typeof callback === "function") apply(callback, this, [event]);
        else apply(callback.handleEvent, callback, [event]);
      } catch (thrown) {
        fail(thrown);
      }
    }
    return endEvent(event);
  }
  static drop(target, listener) {
    const listeners = target.#listeners;
    listener.isGone = true;
    let kept = 0;
    for (let i = 0; i < listeners.length; i++) if (listeners[i] !== listener) listeners[kept++] = listeners[i];
    listeners.length = kept;
  }
}
const { drop: dropListener } = EventTarget;
delete EventTarget.drop;
const eventType = getterOf(Event.prototype, "type");
tagged(EventTarget, "EventTarget");

const MAKING = {}; // a key that only the code here has
class AbortSignal extends EventTarget {
  #aborted = false;
  #reason = undefined;
  #steps = [];
  #handler = null;
  #called = null;
  constructor(key) {
    if (key !== MAKING) throw new NativeTypeError("Illegal constructor");
    super();
  }
  get aborted() { return this.#aborted; }
  get reason() { return this.#reason; }
  get onabort() { return this.#handler; }
  set onabort(handler) {
    this.#handler = typeof handler === "function" ? handler : null;
    if (this.#called === null) {
      this.#called = (event) => { if (this.#handler !== null) apply(this.#handler, this, [event]); };
      apply(addListener, this, ["abort", this.#called]);
    }
  }
  throwIfAborted() { if (this.#aborted) throw this.#reason; }
  static abort(reason = domError("This operation was aborted", "AbortError")) {
    const signal = new AbortSignal(MAKING);
    abortNow(signal, reason);
    return signal;
  }
  static timeout(ms) {
    const wait = NumberOf(ms);
    if (!(wait >= 0 && wait <= GREATEST)) throw new NativeRangeError("The timeout must be a number of milliseconds from 0 on");
    const signal = new AbortSignal(MAKING);
    setTimeout(() => abortNow(signal, domError("The operation was aborted due to timeout", "TimeoutError")), wait);
    return signal;
  }
  static any(signals) {
    const signal = new AbortSignal(MAKING);
    const all = [];
    for (const each of signals) {
      if (isAborted(each)) {
        abortNow(signal, each.#reason);
        return signal;
      }
      all[all.length] = each;
    }
    for (let i = 0; i < all.length; i++) onAbort(all[i], () => abortNow(signal, all[i].#reason));
    return signal;
  }
  static isAborted(signal) { return signal.#aborted; }
  static onAbort(signal, step) { signal.#steps[signal.#steps.length] = step; }
  static abortNow(signal, reason) {
    if (signal.#aborted) return;
    signal.#aborted = true;
    signal.#reason = reason;
    const steps = signal.#steps;
    signal.#steps = [];
    for (let i = 0; i < steps.length; i++) steps[i]();
    apply(dispatch, signal, [new Event("abort")]);
  }
}
const { isAborted, onAbort, abortNow } = AbortSignal;
for (const name of ["isAborted", "onAbort", "abortNow"]) delete AbortSignal[name];
const addListener = EventTarget.prototype.addEventListener;
const dispatch = EventTarget.prototype.dispatchEvent;
freeze(EventTarget); // for the same reason
tagged(AbortSignal, "AbortSignal");

class AbortController {
  #signal = new AbortSignal(MAKING);
  get signal() { return this.#signal; }
  abort(reason = domError("This operation was aborted", "AbortError")) { abortNow(this.#signal, reason); }
}
tagged(AbortController, "AbortController");
const reportError = (error) => fail(error);
