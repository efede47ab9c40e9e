// UTCP's code mode: an isolate of this very process for each program, with no process boundary around it.
import { createInterface } from "node:readline";

for (const level of ["log", "info", "warn", "debug"]) console[level] = () => {};  // the packages talk while they load
const { addFunctionToUtcpDirectCall } = await import("@utcp/direct-call");
const { CodeModeUtcpClient } = await import("@utcp/code-mode");

const PROGRAMS = {
  fresh: ["return 1 + 1", 2],
  calls: ["let sum = 0; for (let i = 0; i < 100; i++) sum += local.echo({ i }).i; return sum", 4950],
};

addFunctionToUtcpDirectCall("manual", async () => ({
  utcp_version: "1.0.0",
  manual_version: "1.0.0",
  tools: [{
    name: "echo",
    description: "Returns what it is given",
    inputs: { type: "object", properties: { i: { type: "number" } }, required: ["i"] },
    outputs: { type: "object", properties: { i: { type: "number" } } },
    tool_call_template: { name: "echo", call_template_type: "direct-call", callable_name: "echo" },
  }],
}));
addFunctionToUtcpDirectCall("echo", async (given) => (typeof given === "object" ? given : { i: given }));

const client = await CodeModeUtcpClient.create(process.cwd(), null);
await client.registerManual({ name: "local", call_template_type: "direct-call", callable_name: "manual" });

for await (const line of createInterface({ input: process.stdin })) {
  const { work, times } = JSON.parse(line);
  const [program, expected] = PROGRAMS[work];
  const spent = [];
  for (let done = 0; done < times; done++) {
    const started = performance.now();
    const { result, logs } = await client.callToolChain(program);
    spent.push(performance.now() - started);
    if (result !== expected) throw new Error(`${JSON.stringify(result)} ${logs}`);
  }
  process.stdout.write(`${JSON.stringify(spent)}\n`);
}
process.exit(0);
