// The official library for TypeScript, 1.x.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { headers, program, steps, target, visitAll } from "./steps.mjs";

await visitAll(async (transport, seen) => {
  const client = new Client({ name: "sdk", version: "1" }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => seen.ask(params.message));
  const way =
    transport === "stdio"
      ? new StdioClientTransport(program)
      : new StreamableHTTPClientTransport(new URL(target.url), { requestInit: { headers } });
  await client.connect(way);
  seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
  for (const [step, [name, args]] of Object.entries(steps)) {
    const result = await client.callTool({ name, arguments: args }, undefined, { timeout: 300_000 });
    seen.takeBlocks(step, result.content, result.structuredContent);
  }
  await client.close();
  return seen;
});
