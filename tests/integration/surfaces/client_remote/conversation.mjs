// Uses every method of the TypeScript client against a server, and prints what came of it as JSON.
// Arguments: the built client, the address of the server.
const [client, url] = process.argv.slice(2);
const { Paddock, PaddockError } = await import(client);

const paddock = new Paddock({ url });
const seen = {};
const fault = async (act) => {
  try {
    await act();
  } catch (error) {
    return { paddock: error instanceof PaddockError, status: error.status, type: error.type, text: error.message };
  }
};
const decode = (data) => new TextDecoder().decode(data);

const events = [];
const guest = await paddock.execute(
  { language: "javascript", code: "console.log('hi'); return servers.odd.echo({text: input})", input: "x" },
  { onEvent: (event) => events.push(event) },
);
seen.guest = [guest.status, guest.value];
seen.events = events.map((event) => event.name);
seen.line = events[1].data;

const program = await paddock.execute({
  language: "python",
  code: "print(open('a.txt').read()); open('o.csv', 'w').write('1,2')",
  files: [{ path: "a.txt", text: "hello" }],
  outputs: ["*.csv"],
});
seen.output = program.program.stdout.head;
const stored = program.program.files.find((file) => file.path === "o.csv");
seen.artifact = decode(await paddock.readArtifact(stored.handle));
seen.exit = (await paddock.execute({ language: "python", code: "raise SystemExit(3)" })).program.exit_code;

const session = await paddock.openSession({ language: "python", files: [{ path: "in.txt", text: "21" }] });
await session.execute({ code: "x = int(open('in.txt').read())" });
seen.state = (await session.execute({ code: "x * 2" })).results[0].data["text/plain"];
await session.writeFile("dir/ü ?#.bin", new Uint8Array([0, 1]));
seen.files = (await session.listFiles()).map((file) => file.path);
seen.bytes = [...(await session.readFile("dir/ü ?#.bin"))];
await session.removeFile("in.txt");
seen.absent = await fault(() => session.readFile("in.txt"));
const sleeping = session.execute({ code: "import time; print('begun', flush=True); time.sleep(3600)" }, {
  onEvent: (event) => event.name === "output" && session.interrupt(),
});
seen.interrupted = (await sleeping).status;
seen.partial = (await paddock.sessions()).partial;
seen.sessions = (await paddock.sessions()).filter((info) => info.id === session.id).map((info) => info.executions > 2);
await session.close();
seen.closed = await fault(() => paddock.session(session.id).info());

const stop = new AbortController();
const spinning = paddock.execute(
  { language: "javascript", code: "console.log('begun'); while (true) {}" },
  { signal: stop.signal, onEvent: (event) => event.name === "console" && stop.abort() },
);
seen.aborted = (await spinning).status;
seen.invalid = await fault(() => paddock.execute({ language: "klingon", code: "1" }));
seen.unauthorized = await fault(() => new Paddock({ url, token: "wrong" }).sessions());
seen.plain = await fault(() => new Paddock({ url: "http://10.0.0.1:1" }));
console.log(JSON.stringify(seen));
