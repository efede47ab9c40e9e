// The AI SDK of Vercel: tools as its `generateText` calls them.

import { createMCPClient, ElicitationRequestSchema } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";
import { headers, program, steps, target, visitAll } from "./steps.mjs";

await visitAll(async (transport, seen) => {
  const way = transport === "stdio" ? new StdioTransport(program) : { type: "http", url: target.url, headers };
  const client = await createMCPClient({ transport: way, capabilities: { elicitation: {} } });
  client.onElicitationRequest(ElicitationRequestSchema, async ({ params }) => seen.ask(params.message));
  const tools = await client.tools();
  seen.tools = Object.keys(tools);
  for (const [step, [name, args]] of Object.entries(steps)) {
    const result = await tools[name].execute(args, { toolCallId: step, messages: [] });
    seen.takeBlocks(step, result.content, result.structuredContent);
  }
  await client.close();
  return seen;
});
