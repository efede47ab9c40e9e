// What each client library from npm is asked to do; `steps.py` is the same for Python.

export const target = JSON.parse(process.argv[2]);
export const headers = { Authorization: `Bearer ${target.token}` };
export const program = { command: target.command, args: target.args, env: target.env };

const everything = { server: "everything" };
export const steps = {
  code: ["execute_code", { code: "return {answer: 6 * 7}" }],
  program: ["run_program", { language: "python", code: "print(6 * 7)" }],
  image: ["call_tool", { ...everything, tool: "get-tiny-image" }],
  approval: ["call_tool", { ...everything, tool: "echo", args: { message: "as allowed" } }],
  session: ["run_program", { language: "python", session: "new", code: "x = 40" }],
  again: ["run_program", { language: "python", session: "new", code: "print('kept', x + 2)" }],
};

class Visit {
  tools = [];
  forms = [];
  answers = {};

  ask(message) {
    this.forms.push(message);
    return { action: "accept", content: { allow: "once" } };
  }

  take(step, text, structured, images) {
    const [handle] = `${text} ${JSON.stringify(structured)}`.match(/s_[0-9a-f]{48}/) ?? [];
    if (step === "session" && handle) steps.again[1].session = handle;
    const told = images.map((data) => Buffer.from(data, "base64").subarray(0, 8).toString("hex"));
    this.answers[step] = { text, structured: structured ?? null, images: told };
  }

  takeBlocks(step, blocks, structured) {
    const texts = blocks.filter((block) => block.type === "text").map((block) => block.text);
    const images = blocks.filter((block) => block.type === "image").map((block) => block.data);
    this.take(step, texts.join("\n"), structured, images);
  }
}

export async function visitAll(visit) {
  const told = {};
  for (const transport of target.transports) {
    const { tools, forms, answers } = await visit(transport, new Visit());
    told[transport] = { tools, forms, answers };
  }
  process.stdout.write(JSON.stringify(told), () => process.exit(0));
}
