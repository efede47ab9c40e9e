// Has fetch, http and https of Node.js connect through the proxy of the job. Node.js 24 does it by itself
// (NODE_USE_ENV_PROXY); older ones load this text with --import.
import http from "node:http";
import https from "node:https";
import net from "node:net";
import tls from "node:tls";

const address = process.env.HTTPS_PROXY;
if (address && !process.allowedNodeEnvironmentFlags.has("--use-env-proxy")) {
  const proxy = new URL(address);
  const direct = new Set((process.env.NO_PROXY ?? "").split(","));

  const openTunnel = (authority, done) => {
    const ask = { host: proxy.hostname, port: proxy.port, method: "CONNECT", path: authority, agent: false };
    http.request({ ...ask, headers: { host: authority } })
      .once("connect", (answer, socket, head) => {
        if (answer.statusCode === 200) return done(null, socket);
        socket.destroy();
        const why = head.toString().trim() || `the proxy answered ${answer.statusCode}`;
        done(Object.assign(new Error(why), { code: "ERR_PROXY_TUNNEL" }));
      })
      .once("error", done)
      .end();
  };
  const openDirectly = (host, port, done) => {
    const socket = net.connect({ host, port });
    socket.once("error", done).once("connect", () => { socket.off("error", done); done(null, socket); });
  };
  const connect = (secure, options, done) => {
    const host = (options.hostname ?? options.host ?? "localhost").replace(/^\[|\]$/g, "");
    const port = Number(options.port) || (secure ? 443 : 80);
    const finish = (error, socket) => {
      if (error || !secure) return done(error, socket);
      const name = options.servername || (net.isIP(host) ? "" : host);
      const over = tls.connect({ ...options, path: undefined, host, port, socket, servername: name });
      over.once("error", done).once("secureConnect", () => { over.off("error", done); done(null, over); });
    };
    if (direct.has(host)) openDirectly(host, port, finish);
    else openTunnel(`${net.isIPv6(host) ? `[${host}]` : host}:${port}`, finish);
  };

  http.globalAgent.createConnection = (options, done) => { connect(false, options, done); };
  https.globalAgent.createConnection = (options, done) => { connect(true, options, done); };
  void globalThis.Response; // loads undici, the library behind fetch
  const current = Symbol.for("undici.globalDispatcher.1");
  const Agent = globalThis[current]?.constructor;
  if (Agent) {
    const through = (options, done) => connect(options.protocol === "https:", options, done);
    globalThis[current] = new Agent({ connect: through });
  }
}
