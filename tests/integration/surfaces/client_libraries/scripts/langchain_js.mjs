// LangChain's adapters for JavaScript: tools of LangChain, called as an agent calls them.

import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { headers, program, steps, target, visitAll } from "./steps.mjs";

await visitAll(async (transport, seen) => {
  const entry =
    transport === "stdio"
      ? { transport, ...program, defaultToolTimeout: 300_000 }
      : { transport: "http", url: target.url, headers, defaultToolTimeout: 300_000 };
  const client = new MultiServerMCPClient({ mcpServers: { paddock: entry }, useStandardContentBlocks: true });
  const tools = Object.fromEntries((await client.getTools()).map((tool) => [tool.name, tool]));
  seen.tools = Object.keys(tools);
  for (const [step, [name, args]] of Object.entries(steps)) {
    const message = await tools[name].invoke({ type: "tool_call", id: step, name, args });
    const blocks =
      typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
    const texts = blocks.filter((block) => block.type === "text").map((block) => block.text);
    const images = blocks.filter((block) => block.type === "image").map((block) => block.data);
    const artifacts = Array.isArray(message.artifact) ? message.artifact : [message.artifact];
    const structured = artifacts.map((each) => each?.structuredContent ?? each?.data).find(Boolean);
    seen.take(step, texts.join("\n"), structured, images);
  }
  await client.close();
  return seen;
});
