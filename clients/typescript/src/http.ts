/** Requests to one server: bounded answers, no redirects, and repeated requests where that is safe. */

import type { ProblemDocument } from "./schema.js";

const MiB = 1024 * 1024;
/** Maximum size of a JSON answer or of one event, in bytes. */
export const MAX_JSON_BYTES = 64 * MiB;
/** Maximum size of a file, in bytes. */
export const MAX_FILE_BYTES = 256 * MiB;
const MAX_ATTEMPTS = 6;
const MAX_WAIT_MS = 30_000;
const FIRST_WAIT_MS = 250;
const MAY_PASS = new Set([429, 502, 503, 504]);

/** The server did not answer, or its answer is a problem (RFC 9457). */
export class PaddockError extends Error {
  override readonly name = "PaddockError";

  constructor(
    message: string,
    /** Status of the answer; 0 without one. */
    readonly status = 0,
    /** Type of the problem, such as `session-lost`; empty if the answer is no problem document. */
    readonly type = "",
    /** The problem document. */
    readonly problem: ProblemDocument | null = null,
  ) {
    super(message);
  }
}

/** An attempt failed for a reason that may pass. */
export class TryAgain extends Error {
  constructor(
    readonly error: PaddockError,
    /** Whether the server may have got the request. */
    readonly reached: boolean,
    readonly afterMs: number | null = null,
  ) {
    super(error.message);
  }

  /** Whether the request may have started, which no later attempt makes untrue. */
  get unknown(): boolean {
    return this.error.type === "outcome-unknown";
  }
}

export interface RequestOptions {
  body?: string | Uint8Array;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

/** The API of one server, for the holder of a token. */
export class Connection {
  readonly #url: string;
  readonly #token: string;
  readonly #fetch: typeof fetch;

  constructor(url: string, token: string, unencrypted: boolean, send: typeof fetch) {
    const address = new URL(url);
    const host = address.hostname.replace(/^\[|\]$/g, "");
    const local = host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
    if (!["http:", "https:"].includes(address.protocol) || address.username || address.password) {
      throw new PaddockError("The address of a server is http(s)://HOST:PORT, without user and password.");
    }
    if (address.protocol === "http:" && !local && !unencrypted) {
      throw new PaddockError(
        `The token would cross the network to ${host} unencrypted. Use https, or set \`unencrypted\`.`,
      );
    }
    if (!/^[!-~]{1,4096}$/.test(token)) {
      throw new PaddockError("There is no valid token for the server. Pass `token`, or set PADDOCK_TOKEN.");
    }
    this.#url = address.origin + address.pathname.replace(/\/+$/, "");
    this.#token = token;
    this.#fetch = send;
  }

  /** Return the answer to a request; its status is a success. Throws PaddockError and TryAgain. */
  async send(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    let answer: Response;
    try {
      answer = await this.#fetch(this.#url + path, {
        method,
        body: (options.body ?? null) as BodyInit | null,
        headers: { ...options.headers, Authorization: `Bearer ${this.#token}` },
        redirect: "manual",
        signal: options.signal ?? null,
      });
    } catch (error) {
      if (options.signal?.aborted) throw error;
      const why = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
      throw new TryAgain(new PaddockError(this.hide(`Cannot connect to ${this.#url}: ${why}`)), false);
    }
    if (answer.ok) return answer;
    if (answer.type === "opaqueredirect" || (answer.status >= 300 && answer.status < 400)) {
      throw new PaddockError(
        `${this.#url} redirects to another address, to which the token is not sent.`,
        answer.status,
      );
    }
    const document = await readBounded(answer, MiB).then(parse).catch(() => null);
    throw this.explain(document, answer.status, answer.headers.get("retry-after"));
  }

  /** Return the error for a problem document: TryAgain if the same request may succeed later. */
  explain(document: unknown, status = 0, retryAfter: string | null = null): PaddockError | TryAgain {
    const problem = isObject(document) && typeof document["detail"] === "string" ? document : null;
    const code = status || (typeof problem?.["status"] === "number" ? problem["status"] : 500);
    const text = problem === null ? `It answered with the status ${code}.` : String(problem["detail"]);
    const type = String(problem?.["type"] ?? "").replace("urn:paddock:problem:", "");
    const shown = problem as unknown as ProblemDocument | null;
    const error = new PaddockError(this.hide(text), code, type, shown);
    if (!MAY_PASS.has(code)) return error;
    return new TryAgain(error, true, /^\d{1,6}$/.test(retryAfter ?? "") ? Number(retryAfter) * 1000 : null);
  }

  /** Return a text without the token, which a server could repeat. */
  hide(text: string): string {
    return text.replaceAll(this.#token, "[REDACTED:token]").slice(0, 4000);
  }
}

/** Return what an attempt returns; make further ones after TryAgain if a second one is safe. */
export async function repeat<T>(attempt: () => Promise<T>, safe: boolean, signal?: AbortSignal): Promise<T> {
  let reached = false;
  let unknown: PaddockError | null = null;
  for (let number = 0; ; number++) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof TryAgain)) throw error;
      reached ||= error.reached;
      if (error.unknown) unknown = error.error;
      const waitMs = error.afterMs ?? FIRST_WAIT_MS * 2 ** number;
      if (!safe || !reached || number === MAX_ATTEMPTS - 1 || waitMs > MAX_WAIT_MS) throw unknown ?? error.error;
      await new Promise((resolve) => setTimeout(resolve, waitMs * (1 + Math.random() / 4)));
      signal?.throwIfAborted();
    }
  }
}

/** Return the body of an answer. Throws PaddockError if it is larger than `maxBytes`. */
export async function readBounded(answer: Response, maxBytes: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of readPieces(answer)) {
    size += piece.length;
    if (size > maxBytes) throw new PaddockError(`The answer has more than ${maxBytes} bytes.`);
    pieces.push(piece);
  }
  const body = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    body.set(piece, at);
    at += piece.length;
  }
  return body;
}

async function* readPieces(answer: Response): AsyncGenerator<Uint8Array> {
  if (answer.body === null) return;
  const reader = answer.body.getReader();
  try {
    for (;;) {
      let next;
      try {
        next = await reader.read();
      } catch (error) {
        if (error instanceof DOMException && error.name === "AbortError") throw error;
        throw new TryAgain(new PaddockError("The connection broke off during the answer."), true);
      }
      if (next.done) return;
      yield next.value;
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

/** Yield the server-sent events of an answer as names with data (HTML Living Standard, section 9.2). */
export async function* readEvents(answer: Response): AsyncGenerator<[string, unknown]> {
  const decoder = new TextDecoder();
  let rest: string[] = [];
  let size = 0;
  let name = "";
  for await (const piece of readPieces(answer)) {
    const lines = decoder.decode(piece, { stream: true }).split("\n");
    const last = lines.pop() ?? "";
    for (const part of lines) {
      const line = [...rest, part].join("");
      [rest, size] = [[], 0];
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) yield [name, parse(line.slice(6))];
    }
    rest.push(last);
    size += last.length;
    if (size > MAX_JSON_BYTES) throw new PaddockError(`An event has more than ${MAX_JSON_BYTES} bytes.`);
  }
}

/** Return the value of a JSON text. Throws PaddockError. */
export function parse(text: string | Uint8Array): unknown {
  try {
    return JSON.parse(typeof text === "string" ? text : new TextDecoder("utf-8", { fatal: true }).decode(text));
  } catch {
    throw new PaddockError("The server's answer is not JSON.");
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
