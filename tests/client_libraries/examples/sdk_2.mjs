import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const client = new Client({ name: "my-agent", version: "1.0.0" });
await client.connect(new StdioClientTransport({ command: "paddock", args: ["serve", "mcp", "--workspace", "."] }));
const result = await client.callTool({ name: "execute_code", arguments: { code: "return 6 * 7" } });
console.log(result.structuredContent.value);
await client.close();
