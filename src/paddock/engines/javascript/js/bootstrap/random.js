// Math.random. V8 seeds its own generator before workers are forked, so that all would repeat the same numbers; the host seeds
// this one for each program. xoshiro128** (Blackman and Vigna, 2018), two words for the 53 bits of a number.
let [random0, random1, random2, random3] = [1, 0, 0, 0];
function nextWord() {
  const product = imul(random1, 5);
  const word = imul((product << 7) | (product >>> 25), 9);
  const shifted = random1 << 9;
  random2 ^= random0;
  random3 ^= random1;
  random1 ^= random2;
  random0 ^= random3;
  random2 ^= shifted;
  random3 = (random3 << 11) | (random3 >>> 21);
  return word;
}
const { random } = { random() { return ((nextWord() >>> 5) * 67108864 + (nextWord() >>> 6)) / 9007199254740992; } };
function seedRandom(seed) {
  random0 = seed[0]; // by index: in a session, a program may have replaced the iterator of arrays
  random1 = seed[1];
  random2 = seed[2];
  random3 = seed[3];
}
