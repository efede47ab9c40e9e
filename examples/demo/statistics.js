// A computation: reads one string and emits another. It has no clock and no random numbers unless it requests them.
const readings = {};
for (const line of read_input().trim().split("\n").slice(1)) {
  const [city, degrees] = line.split(",");
  (readings[city] ??= []).push(Number(degrees));
}
for (const [city, all] of Object.entries(readings)) {
  const mean = all.reduce((sum, one) => sum + one, 0) / all.length;
  emit(`${city}: ${all.length} readings, mean ${mean}, highest ${Math.max(...all)}\n`);
}
const chosen = Object.keys(readings)[Math.floor(Math.random() * Object.keys(readings).length)];
emit(`drawn by lot: ${chosen}, the same at every run; clock ${typeof Intl}, console ${typeof console}`);
