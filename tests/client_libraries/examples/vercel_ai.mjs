import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";

const transport = new StdioTransport({ command: "paddock", args: ["serve", "mcp", "--workspace", "."] });
const client = await createMCPClient({ transport });
const tools = await client.tools(); // a model takes them: generateText({ model, tools, prompt })
const result = await tools.execute_code.execute({ code: "return 6 * 7" }, { toolCallId: "1", messages: [] });
console.log(result.structuredContent.value);
await client.close();
