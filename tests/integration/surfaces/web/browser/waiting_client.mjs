// An agent of the official library for TypeScript whose client cannot ask: it waits for a person elsewhere.
// Usage: node waiting_client.mjs PADDOCK CODE; prints the run that waits, and then what the program returned.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, code] = process.argv.slice(2);
const client = new Client({ name: "typescript-agent", version: "1" });
await client.connect(new StdioClientTransport({ command, args: ["serve", "mcp"], env: process.env }));
const first = await client.callTool({ name: "execute_code", arguments: { code } });
console.log(JSON.stringify(first.structuredContent));
let last = first;
while (last.structuredContent.status === "waiting") {
  last = await client.callTool({
    name: "query_output",
    arguments: { artifact_handle: first.structuredContent.run },
  });
}
console.log(JSON.stringify(last.structuredContent));
await client.close();
