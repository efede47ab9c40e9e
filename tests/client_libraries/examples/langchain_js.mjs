import { MultiServerMCPClient } from "@langchain/mcp-adapters";

const paddock = { transport: "stdio", command: "paddock", args: ["serve", "mcp", "--workspace", "."] };
const client = new MultiServerMCPClient({ mcpServers: { paddock } });
const tools = await client.getTools(); // an agent takes them: createAgent({ model, tools })
const execute = tools.find((tool) => tool.name === "execute_code");
console.log((await execute.invoke({ code: "return 6 * 7" })).structuredContent.value);
await client.close();
