/** Client of the HTTP API of Paddock. */

import { Connection, MAX_FILE_BYTES, MAX_JSON_BYTES, PaddockError, TryAgain } from "./http.js";
import { isObject, parse, readBounded, readEvents, repeat } from "./http.js";
import type {
  CallRecord,
  ConsoleLine,
  ExecutionBody,
  Outcome,
  OutputFile,
  Question,
  SessionBody,
  SessionExecutionBody,
  SessionInfo,
} from "./schema.js";

export { PaddockError };
export type * from "./schema.js";

export interface PaddockOptions {
  /** Address of `paddock serve http`, such as `https://paddock.example.com`. */
  url: string;
  /** Token of the server. Default: the variable PADDOCK_TOKEN. */
  token?: string;
  /** Allow plain http to another machine. */
  unencrypted?: boolean;
  /** Replaces the global `fetch`, for example by one with a proxy. */
  fetch?: typeof fetch;
}

/** What happens while an execution runs. */
export type ExecutionEvent =
  | { name: "started"; data: { id: string } }
  | { name: "console"; data: ConsoleLine }
  | { name: "output"; data: { stream: "stdout" | "stderr"; text: string } }
  | { name: "call"; data: CallRecord }
  | { name: "question"; data: Question }
  | { name: "dropped"; data: { events: number } };

/** The open sessions of a caller; `partial` names the replicas of the server that did not answer. */
export type OpenSessions = SessionInfo[] & { partial: string[] };

export interface ExecutionOptions {
  /** Called with each event of the execution. An exception ends the execution. */
  onEvent?: (event: ExecutionEvent) => void;
  /** Cancels the execution. */
  signal?: AbortSignal;
}

/** Runs programs on a server. Outcomes are values, whatever their status; problems are thrown as PaddockError. */
export class Paddock {
  readonly #connection: Connection;

  constructor(options: PaddockOptions) {
    const environment = (globalThis as { process?: { env: Record<string, string | undefined> } }).process?.env;
    const token = options.token ?? environment?.["PADDOCK_TOKEN"] ?? "";
    this.#connection = new Connection(options.url, token, options.unencrypted ?? false, options.fetch ?? fetch);
  }

  /** Run a program, a computation, a tool or a script tool, and return its outcome. It starts at most once. */
  execute(body: ExecutionBody, options: ExecutionOptions = {}): Promise<Outcome> {
    return execute(this.#connection, "/v1/executions", body, options);
  }

  /** Open a session: an interpreter that keeps its variables and files from one execution to the next. */
  async openSession(body: SessionBody): Promise<Session> {
    const options = { body: JSON.stringify(body), headers: jsonHeaders(crypto.randomUUID()) };
    const info = await fetchJson(this.#connection, "POST", "/v1/sessions", options);
    return new Session(this.#connection, stringOf(info, "id"));
  }

  /** Return the session with a handle, which is open already. */
  session(id: string): Session {
    return new Session(this.#connection, id);
  }

  /** Return the open sessions of this caller, the oldest first. */
  async sessions(): Promise<OpenSessions> {
    const answer = await fetchJson(this.#connection, "GET", "/v1/sessions");
    const sessions = listOf(answer, "sessions") as SessionInfo[];
    const partial = isObject(answer) && "partial" in answer ? listOf(answer, "partial") : [];
    return Object.assign(sessions, { partial: partial.map(String) });
  }

  /** Return a stored file or stored output, by the handle in an outcome. */
  readArtifact(handle: string): Promise<Uint8Array> {
    return fetchFile(this.#connection, `/v1/artifacts/${encodeURIComponent(handle)}`);
  }
}

/** One session of a server. */
export class Session {
  readonly #connection: Connection;
  readonly #path: string;

  constructor(
    connection: Connection,
    /** Its handle, which cannot be guessed. */
    readonly id: string,
  ) {
    this.#connection = connection;
    this.#path = `/v1/sessions/${encodeURIComponent(id)}`;
  }

  /** Run a program after what ran before. */
  execute(body: SessionExecutionBody, options: ExecutionOptions = {}): Promise<Outcome> {
    return execute(this.#connection, `${this.#path}/executions`, body, options);
  }

  /** Return what the server knows about the session. */
  async info(): Promise<SessionInfo> {
    return (await fetchJson(this.#connection, "GET", this.#path)) as SessionInfo;
  }

  /** Return the files in its working directory, by path. */
  async listFiles(): Promise<OutputFile[]> {
    return listOf(await fetchJson(this.#connection, "GET", `${this.#path}/files`), "files") as OutputFile[];
  }

  /** Return the content of a file. */
  readFile(path: string): Promise<Uint8Array> {
    return fetchFile(this.#connection, this.#filePath(path));
  }

  /** Write a file, and replace one that is there. */
  async writeFile(path: string, data: string | Uint8Array): Promise<void> {
    const headers = { "Content-Type": "application/octet-stream" };
    await act(this.#connection, "PUT", this.#filePath(path), { body: data, headers });
  }

  /** Remove a file. */
  removeFile(path: string): Promise<void> {
    return act(this.#connection, "DELETE", this.#filePath(path));
  }

  /** Interrupt the program that it executes now. */
  interrupt(): Promise<void> {
    return act(this.#connection, "POST", `${this.#path}/interrupt`);
  }

  /** End its processes and remove its files. */
  close(): Promise<void> {
    return act(this.#connection, "DELETE", this.#path);
  }

  #filePath(path: string): string {
    return `${this.#path}/files/${path.split("/").map(encodeURIComponent).join("/")}`;
  }
}

/** Run something with a fresh `Idempotency-Key`, so that a request that is sent again starts nothing twice. */
async function execute(
  connection: Connection,
  path: string,
  body: ExecutionBody | SessionExecutionBody,
  { onEvent, signal }: ExecutionOptions,
): Promise<Outcome> {
  const headers = { ...jsonHeaders(crypto.randomUUID()), Accept: "text/event-stream" };
  const text = JSON.stringify(body);
  let id = "";
  let ended = false;
  signal?.throwIfAborted();
  const cancel = async () => {
    if (id && !ended) await act(connection, "DELETE", `/v1/executions/${encodeURIComponent(id)}`).catch(() => {});
  };
  const onAbort = () => void cancel();
  signal?.addEventListener("abort", onAbort, { once: true });
  const attempt = async (): Promise<Outcome> => {
    const answer = await connection.send("POST", path, { body: text, headers });
    if (!answer.headers.get("content-type")?.startsWith("text/event-stream")) {
      throw new PaddockError("The server did not answer with events. Is it `paddock serve http`?");
    }
    for await (const [name, data] of readEvents(answer)) {
      if (name === "outcome") return checkOutcome(data);
      if (name === "problem") throw connection.explain(data);
      if (name === "started") {
        id = stringOf(data, "id");
        if (signal?.aborted) void cancel();
      }
      onEvent?.({ name, data } as ExecutionEvent);
    }
    throw new TryAgain(new PaddockError(`The answer ended before the outcome of ${id || "the execution"}.`), true);
  };
  try {
    const outcome = await repeat(attempt, true, signal);
    ended = true;
    return outcome;
  } catch (error) {
    if (!(error instanceof PaddockError)) await cancel(); // an exception of `onEvent`
    throw error;
  } finally {
    signal?.removeEventListener("abort", onAbort);
  }
}

function jsonHeaders(key: string): Record<string, string> {
  return { "Content-Type": "application/json", "Idempotency-Key": key };
}

async function act(
  connection: Connection,
  method: string,
  path: string,
  options: { body?: string | Uint8Array; headers?: Record<string, string> } = {},
): Promise<void> {
  await repeat(async () => readBounded(await connection.send(method, path, options), MAX_JSON_BYTES), false);
}

async function fetchJson(
  connection: Connection,
  method: "GET" | "POST",
  path: string,
  options: { body?: string; headers?: Record<string, string> } = {},
): Promise<unknown> {
  const attempt = async () => readBounded(await connection.send(method, path, options), MAX_JSON_BYTES);
  return parse(await repeat(attempt, true));
}

function fetchFile(connection: Connection, path: string): Promise<Uint8Array> {
  return repeat(async () => readBounded(await connection.send("GET", path), MAX_FILE_BYTES), true);
}

function stringOf(value: unknown, name: string): string {
  const found = isObject(value) ? value[name] : undefined;
  if (typeof found !== "string" || !/^[0-9A-Za-z_-]{1,64}$/.test(found)) {
    throw new PaddockError(`The server's answer has no valid \`${name}\`.`);
  }
  return found;
}

function listOf(value: unknown, name: string): unknown[] {
  const found = isObject(value) ? value[name] : undefined;
  if (!Array.isArray(found)) throw new PaddockError(`The server's answer has no list \`${name}\`.`);
  return found;
}

function checkOutcome(value: unknown): Outcome {
  if (!isObject(value) || typeof value["id"] !== "string" || typeof value["status"] !== "string") {
    throw new PaddockError("The server's answer is not an outcome.");
  }
  return value as unknown as Outcome;
}
