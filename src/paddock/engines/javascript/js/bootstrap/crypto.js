// crypto: random bytes from the kernel, and digests by a library that loads at its first use.
const RANDOM_MOST = 65536;
const inward = isolated(new Bytes(buffer, IN_OFFSET, RANDOM_MOST), RANDOM_MOST);
// Writes random bytes into `bytes`. The worker puts them into the buffer of incoming messages, unused while a program runs.
function fillRandom(bytes, count) {
  if (entropy !== null) return deriveBytes(bytes, count);
  header[OUT_LENGTH] = count;
  header[OPERATION] = RANDOM;
  post();
  for (let i = 0; i < count; i++) {
    bytes[i] = inward[i];
    inward[i] = 0;
  }
}

const HEX = [];
for (let i = 0; i < 256; i++) HEX[i] = (i < 16 ? "0" : "") + i.toString(16);
const INTEGERS = new Set(["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array", "BigInt64Array", "BigUint64Array"]);
const setHas = Set.prototype.has;
class Crypto {
  #subtle;
  constructor(key) {
    if (key !== MAKING) throw new NativeTypeError("Illegal constructor");
    this.#subtle = new SubtleCrypto(MAKING);
  }
  get subtle() { return this.#subtle; }
  getRandomValues(array) {
    this.#subtle;
    const kind = typeof array === "object" && array !== null ? apply(typedKind, array, []) : undefined;
    if (!apply(setHas, INTEGERS, [kind])) throw domError("getRandomValues fills typed arrays of integers", "TypeMismatchError");
    const length = apply(typedBytes, array, []);
    if (length > RANDOM_MOST) throw domError("getRandomValues gives at most 65536 bytes at once, not " + length, "QuotaExceededError");
    fillRandom(bytesOf(array), length);
    return array;
  }
  randomUUID() {
    this.#subtle;
    const bytes = [];
    fillRandom(bytes, 16);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let text = "";
    for (let i = 0; i < 16; i++) text += (i === 4 || i === 6 || i === 8 || i === 10 ? "-" : "") + HEX[bytes[i]];
    return text;
  }
}
const DIGESTS = { __proto__: null, "SHA-1": "sha1", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512" };
class SubtleCrypto {
  #brand = true;
  constructor(key) {
    if (key !== MAKING) throw new NativeTypeError("Illegal constructor");
  }
  async digest(algorithm, data) {
    this.#brand;
    const name = apply(upper, StringOf(typeof algorithm === "object" && algorithm !== null ? algorithm.name : algorithm), []);
    if (DIGESTS[name] === undefined) throw domError("Unrecognized algorithm name: SHA-1, SHA-256, SHA-384 and SHA-512 are supported", "NotSupportedError");
    const bytes = bytesOf(data);
    if (bytes === null) throw new NativeTypeError("digest reads an ArrayBuffer, a typed array or a DataView");
    const hash = library("hashes")[DIGESTS[name]](bytes);
    return apply(copyBuffer, apply(typedBuffer, hash, []), [0]);
  }
}
tagged(Crypto, "Crypto");
tagged(SubtleCrypto, "SubtleCrypto");
const crypto = new Crypto(MAKING);

// Libraries that the worker keeps as source until a program uses them (vendor/, hatch_build.py). They run in the program's own
// realm: a program that replaces what they use breaks them only for itself.
const LIBRARIES = ["url", "hashes"];
const loaded = { __proto__: null };
function library(name) {
  if (loaded[name] === undefined) {
    let index = 0;
    while (LIBRARIES[index] !== name) index++;
    header[OUT_LENGTH] = index;
    header[OPERATION] = LOAD;
    post();
    const hands = create(null);
    header[OPERATION] = GIVE;
    try {
      apply(reject, NativePromise, [hands]);
    } finally {
      header[OPERATION] = 0;
    }
    loaded[name] = hands[0]({ TextEncoder, TextDecoder });
  }
  return loaded[name];
}
