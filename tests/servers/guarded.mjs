// A server that wants a login and its authorization server, both of the TypeScript library, on loopback.
// Usage: node guarded.mjs NODE_MODULES; prints its address.
import { pathToFileURL } from "node:url";

const modules = process.argv[2];
const of = (file) => import(pathToFileURL(`${modules}/@modelcontextprotocol/sdk/dist/esm/${file}`).href);
const { default: express } = await import(pathToFileURL(`${modules}/express/index.js`).href);
const { DemoInMemoryAuthProvider } = await of("examples/server/demoInMemoryOAuthProvider.js");
const { requireBearerAuth } = await of("server/auth/middleware/bearerAuth.js");
const { mcpAuthRouter } = await of("server/auth/router.js");
const { McpServer } = await of("server/mcp.js");
const { StreamableHTTPServerTransport } = await of("server/streamableHttp.js");

const app = express();
app.use(express.json());
const listening = app.listen(0, "127.0.0.1", () => {
  const home = `http://127.0.0.1:${listening.address().port}`;
  const provider = new DemoInMemoryAuthProvider();
  app.use(mcpAuthRouter({ provider, issuerUrl: new URL(home), resourceServerUrl: new URL(`${home}/mcp`) }));
  const resourceMetadataUrl = `${home}/.well-known/oauth-protected-resource/mcp`;
  app.post("/mcp", requireBearerAuth({ verifier: provider, resourceMetadataUrl }), async (request, response) => {
    const server = new McpServer({ name: "guarded", version: "1" });
    server.registerTool("whisper", {}, () => ({ content: [{ type: "text", text: "a word" }] }));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    response.on("close", () => transport.close());
    await server.connect(transport);
    await transport.handleRequest(request, response, request.body);
  });
  console.log(`${home}/mcp`);
});
