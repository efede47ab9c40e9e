// The official library for TypeScript, 2.x.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { headers, program, steps, target, visitAll } from "./steps.mjs";

await visitAll(async (transport, seen) => {
  const client = new Client({ name: "sdk", version: "2" }, { capabilities: { elicitation: { form: {} } } });
  client.setRequestHandler("elicitation/create", async ({ params }) => seen.ask(params.message));
  const way =
    transport === "stdio"
      ? new StdioClientTransport(program)
      : new StreamableHTTPClientTransport(new URL(target.url), { requestInit: { headers } });
  await client.connect(way);
  seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
  for (const [step, [name, args]] of Object.entries(steps)) {
    const result = await client.callTool({ name, arguments: args }, { timeout: 300_000 });
    seen.takeBlocks(step, result.content, result.structuredContent);
  }
  await client.close();
  return seen;
});
