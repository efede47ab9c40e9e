// The SDK: the methods of `paddock`, besides `vars` and `workspace`. Each call is one request to the host.
// Methods that older scripts call without `await` return the reply; all others return promises.
const AT_ONCE = [
  "cir.capture", "cir.contradictions", "cir.query", "cir.search", "cir.stats", "health.check", "ledger.verify", "notify.send",
  "sequence.list", "sequence.run", "temporal.fire", "temporal.list", "vault.get", "vault.list", "vault.set",
  "webhook.delete", "webhook.list", "webhook.register", "webhook.test",
];
const PROMISED = ["changes.accept", "changes.discard", "changes.undo", "compute", "exec", "output.query", "script.run", "tool"];

// The part of the message after the id.
function asked(name, values) {
  const body = written("paddock." + name, values);
  if (encoded.length > 0) throw new NativeTypeError("paddock." + name + " was not called: its arguments hold bytes; use bytes.toBase64()");
  if (!fits(body)) throw new NativeRangeError("paddock." + name + ": the arguments are larger than " + frameLimit + " bytes");
  return "," + stringify(name) + "," + body + "]";
}

function askNow(name, values, entry) {
  refuseLate();
  const rest = asked(name, values);
  const site = { stack: "" };
  captureStackTrace(site, entry);
  const id = ++callCount;
  if (id > callLimit) throw hostError(tooMany(), site);
  send(head("sdk") + id + rest);
  header[OUT_LENGTH] = id;
  header[OPERATION] = WAIT;
  post();
  const reply = received();
  if (stepped) moveClock(reply[4]);
  if (!reply[2]) throw hostError(reply[3], site);
  return reply[3] === null ? undefined : reply[3];
}

function askLater(name, values, entry) {
  const rest = asked(name, values);
  return hostCall("paddock", name, (id) => head("sdk") + id + rest, entry);
}

// Adds the method `name`, such as "vault.get" or "exec", to the SDK.
function offer(sdk, name, ask) {
  const dot = apply(indexOf, name, ["."]);
  const short = apply(slice, name, [dot + 1]);
  const method = { [short](...values) { return ask(name, values, method); } }[short];
  let place = sdk;
  if (dot > 0) {
    const group = apply(slice, name, [0, dot]);
    place = sdk[group] ?? (sdk[group] = create(null));
  }
  place[short] = freeze(method);
}

const methods = create(null);
for (const name of AT_ONCE) offer(methods, name, askNow);
for (const name of PROMISED) offer(methods, name, askLater);
for (const group of keys(methods)) freeze(methods[group]);
